#!/bin/bash
# What a Compute Engine machine does at every boot before its work: it fetches its secrets. What
# follows this program runs whatever becomes of it; its exit status is kept for readiness.
: "${secrets:?}" "${secrets_file:?}"

# NAME='value' each, for a shell to source. Nothing of a value, nor the token, is ever a word of a
# command line.
fetch_secrets() {
  install -d -m 700 "${secrets_file%/*}"
  GPUS_SECRETS="$secrets" GPUS_SECRETS_FILE="$secrets_file" python3 - <<'GPUS_SECRETS'
import base64, json, os, shlex, urllib.request
wanted = json.loads(os.environ["GPUS_SECRETS"])
metadata = "http://metadata.google.internal/computeMetadata/v1/instance"
vault = "https://secretmanager.googleapis.com/v1/"
def ask(url, headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
        return json.load(answer)
account = metadata + "/service-accounts/default/token"
token = ask(account, {"Metadata-Flavor": "Google"})["access_token"]
lines = []
for name, version in wanted.items():
    try:
        found = ask(vault + version + ":access", {"Authorization": "Bearer " + token})
    except OSError as error:
        secret = name + " (" + version + ")"
        raise SystemExit("gpus: the secret " + secret + " could not be fetched: " + str(error))
    value = base64.b64decode(found["payload"]["data"]).decode()
    lines.append(name + "=" + shlex.quote(value) + "\n")
path = os.environ["GPUS_SECRETS_FILE"]
file = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
os.fchmod(file, 0o600)
os.write(file, "".join(lines).encode())
os.close(file)
os.replace(path + ".new", path)
GPUS_SECRETS
}

(
  set -euo pipefail
  keep_status
  use_proxies
  fetch_secrets
)
