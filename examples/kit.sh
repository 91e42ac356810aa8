#!/bin/sh
# A relay with an agent behind its mailbox, for the official A2A compatibility kit or anything else that wants somebody to
# talk to. Prints where that agent is and the key of a caller, and runs until it is interrupted. Nothing is left behind.
#
#     examples/kit.sh                      # URL=http://127.0.0.1:7420/a2a/frank@acme and KEY=ah_live_…
#     PORT=7500 RELEASE=1 examples/kit.sh  # at another port, built for release
set -eu
cd "$(dirname "$0")/.."
address=127.0.0.1:${PORT:-7420}

if [ "${RELEASE:-}" = 1 ]; then profile=release; else profile=debug; fi
if [ "$profile" = release ]; then set -- --release; else set --; fi
cargo build --quiet --locked "$@" --bin agentrelay --example worker >&2
programs=${CARGO_TARGET_DIR:-target}/$profile

folder=$(mktemp -d)
relay='' worker=''
finish() {
    trap - EXIT
    for process in $worker $relay; do
        kill "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
    rm -rf "$folder"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

agentrelay() { "$programs/agentrelay" --data "$folder/relay.db" "$@"; }

if agentrelay health --url "http://$address" >/dev/null 2>&1; then
    echo "another relay is at $address; choose another PORT" >&2
    exit 1
fi

# The first agent is the default one: gRPC without a tenant means it.
frank=$(agentrelay agent create frank@acme)
bob=$(agentrelay agent create bob@acme)

"$programs/agentrelay" --data "$folder/relay.db" \
    serve --listen "$address" --rate-limit 0 --allow-private-webhooks >&2 &
relay=$!
until agentrelay health --url "http://$address" >/dev/null 2>&1; do
    kill -0 "$relay" 2>/dev/null || exit 1
    sleep 0.1
done
AGENTRELAY_URL=http://$address AGENTRELAY_KEY=$frank "$programs/examples/worker" >&2 &
worker=$!

echo "URL=http://$address/a2a/frank@acme"
echo "KEY=$bob"

# Waits in the background so that a signal is heard at once, and ends when either of the two does.
while kill -0 "$relay" 2>/dev/null && kill -0 "$worker" 2>/dev/null; do
    sleep 1 >/dev/null &
    wait $! || true
done
exit 1
