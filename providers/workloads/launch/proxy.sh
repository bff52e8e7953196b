#!/bin/bash
# The part of start.sh for a service of several replicas: HAProxy on each of their machines spreads
# the requests over all that are well. It writes down no request, so no token either.
: "${proxy_port:?}" "${service_port:?}" "${service_health:?}" "${tls?}"

begin_proxy() {
  proxy_address="bind :$proxy_port"
  command -v haproxy >/dev/null || logged install_packages haproxy ||
    give_up setup-failed 1 the proxy haproxy could not be installed
  [ -z "$tls" ] || keep_certificate
  if ! keep_proxy; then
    say setup-failed 1 the proxy haproxy could not be started, see the log
    exit 1
  fi
  while sleep 2 && kill -0 $$ 2>/dev/null; do keep_proxy; done 9>&- &
}

# It is the proxy's alone: neither the setup lines nor the program find it.
keep_certificate() {
  file=/etc/haproxy/certificate.pem
  if [ -z "${GPUS_TLS_CERTIFICATE:-}" ]; then
    say setup-wrong 1 no certificate came to this machine: look at tls.certificate
    exit 1
  fi
  (umask 077 && printf '%s\n' "$GPUS_TLS_CERTIFICATE" >"$file")
  unset GPUS_TLS_CERTIFICATE
  proxy_address="bind :$proxy_port ssl crt $file alpn h2,http/1.1 ssl-min-ver TLSv1.2"
}

# The engine writes the addresses of all replicas, and again when there are others.
replicas() {
  if [ -s "$GPUS_ROOT/peers" ]; then cat "$GPUS_ROOT/peers"; else echo 127.0.0.1; fi
}

# A request that a replica did not take goes to another one; what it has begun is not repeated: each
# request has a connection of its own, which says whether it was taken. An answer may take long; a
# machine that is gone is found out by TCP.
proxy_settings() {
  cat <<END
global
  log /dev/log local0 notice
  user haproxy
  group haproxy
  stats socket /run/haproxy/admin.sock mode 600 level admin expose-fd listeners
defaults
  mode http
  timeout connect 2s
  timeout http-request 30s
  timeout http-keep-alive 1m
  timeout client 1h
  timeout server 1h
  timeout tunnel 12h
  option forwardfor
  option http-server-close
  option redispatch 1
  retries 3
frontend service
  $proxy_address
  http-request set-header X-Forwarded-Proto http${tls:+s}
  default_backend replicas
backend replicas
  log global
  balance leastconn
  option httpchk GET $service_health
  http-check expect status 200-399
  option srvtcpka
  srvtcpka-idle 10s
  srvtcpka-intvl 5s
  srvtcpka-cnt 3
  default-server check inter 5s fastinter 1s fall 3 rise 1 tcp-ut 10s
END
  replicas | sed "s/.*/  server & &:$service_port/"
}

# What is open goes on where it is, once the proxy is ours; a configuration that HAProxy refuses
# changes nothing. A reload does not say that somebody else has the port, a restart does.
keep_proxy() {
  now=$(replicas)
  [ "$now" != "${proxied:-}" ] || return 0
  file=/etc/haproxy/haproxy.cfg how=restart
  if grep -qxF "  $proxy_address" "$file"; then how=reload-or-restart; fi
  proxy_settings >"$file.new" && logged haproxy -c -q -f "$file.new" && mv "$file.new" "$file" &&
    logged systemctl "$how" haproxy && proxied=$now
}
