#!/bin/sh
# Sees to it that the browser tests have a Chromium, or says why they are left out.
# Prints on standard output what pytest's -m expression gains: nothing, or " and not browser".
# Usage: provide_chromium.sh [0 = leave the browser tests out]
set -u

leave_out() {
  printf '%s\n' "$@" 'The browser tests are left out of this run.' >&2
  echo ' and not browser'
  exit 0
}

present() {
  [ -n "${CHROMIUM:-}" ] && [ -x "$CHROMIUM" ] && return 0
  command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1
}

[ "${1:-1}" = 0 ] && leave_out 'BROWSER=0:'
present && exit 0

line='apt-get update && apt-get install --yes --no-install-recommends chromium'
command -v apt-get >/dev/null 2>&1 \
  || leave_out 'There is no Chromium here. Install one, or name it: make test CHROMIUM=/path/to/chromium'

if [ "$(id -u)" = 0 ]; then as_root=''
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then as_root='sudo -n env DEBIAN_FRONTEND=noninteractive'
else leave_out 'There is no Chromium here, and only root may install it. Type:' "    sudo sh -c '$line'"
fi

echo 'Installing Chromium from the distribution (once, a minute or two)' >&2
log=$(mktemp)
install() {
  DEBIAN_FRONTEND=noninteractive $as_root apt-get -o DPkg::Lock::Timeout=120 "$@" >>"$log" 2>&1 </dev/null
}
install update || true   # an old list may still do
if install install --yes --no-install-recommends chromium && present; then
  rm -f "$log"
  exit 0
fi
tail -n 5 "$log" >&2
rm -f "$log"
leave_out 'Chromium could not be installed. What was tried, as root:' "    $line"
