# shellcheck shell=sh
# What `. .venv/bin/activate` sets: the rehearsal by default, local state and the empty passphrase,
# from any folder. What is set already stays. GPUS_PROJECT is this checkout.
export GPUS_PROJECT
export GPUS_HOME="${GPUS_HOME:-$GPUS_PROJECT/.state/gpus}"
export PULUMI_BACKEND_URL="${PULUMI_BACKEND_URL:-file://$GPUS_PROJECT/.state}"
if [ -z "${PULUMI_CONFIG_PASSPHRASE_FILE:-}" ]; then
  export PULUMI_CONFIG_PASSPHRASE="${PULUMI_CONFIG_PASSPHRASE:-}"
fi
export PULUMI_SKIP_UPDATE_CHECK=true
# Pulumi's parts talk to each other over loopback, which is nothing for a proxy: gRPC reads
# no_proxy, others NO_PROXY.
no_proxy="${no_proxy:-${NO_PROXY:-}}"
NO_PROXY="${NO_PROXY:-$no_proxy}"
case ",$no_proxy," in
  *,127.0.0.1,* | ',*,') ;;
  *) no_proxy="${no_proxy:+$no_proxy,}127.0.0.1,localhost" ;;
esac
case ",$NO_PROXY," in
  *,127.0.0.1,* | ',*,') ;;
  *) NO_PROXY="${NO_PROXY:+$NO_PROXY,}127.0.0.1,localhost" ;;
esac
export no_proxy NO_PROXY
# Google's plugin is only needed for a live `network: managed`; without this line every run asks for
# it, whatever the stack.
: "${PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION:=true}"
export PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION
pulumi() {
  # Outside any Pulumi project, this one is meant.
  _gpus_at="$PWD"
  while [ "$_gpus_at" != "/" ] && [ ! -f "$_gpus_at/Pulumi.yaml" ]; do
    _gpus_at="$(dirname "$_gpus_at")"
  done
  if [ -f "$_gpus_at/Pulumi.yaml" ]; then
    command pulumi "$@"
  else
    command pulumi -C "$GPUS_PROJECT" "$@"
  fi
}
