"""A service with a token as the README has it: what the stack shows is enough to find the token and to call with it."""

import json
import subprocess


def test_the_token_and_the_line_that_tries_it_are_outputs(project):
    """The token alone is an output of its own, hidden until asked for; the line that tries the service takes it from there and runs as it stands."""
    made = project("serve-llama-70b")
    assert "gpus-" not in made.up().replace("gpus-serve", "")
    token = made.run("stack", "output", "llama_token", "-s", made.stack, "--show-secrets").strip()
    assert token.startswith("gpus-") and " " not in token
    assert token not in made.run("stack", "output", "-s", made.stack)
    line = json.loads(made.run("stack", "output", "llama", "-s", made.stack, "--json"))["try"]
    assert line.endswith("/v1/models # a rehearsal: nothing listens there") and '"' not in line and "TOKEN" not in line
    said = subprocess.run(
        ["bash", "-c", f'curl() {{ echo "$@"; }}; {line}'], env=made.env, cwd=made.folder, capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert said.startswith(f"--oauth2-bearer {token} http")
    made.destroy()
    assert made.machines() == []
