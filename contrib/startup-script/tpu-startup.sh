#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# For TPU VMs whose image is Google's, as those of queued resources; root runs it at each boot:
#   gcloud compute tpus queued-resources create … --metadata-from-file=startup-script=tpu-startup.sh
# Stated is only what metadata does not say: slice, worker, names and MTU are read from there by tpu-hostd itself.
set -eu
ENDPOINT=http://COLLECTOR:4318
PACKAGES=gs://BUCKET/tpu-hostd # tpuctl_*.deb and tpu-hostd_*.deb

site=/etc/tpu-hostd/hostd.conf.d/20-startup.conf
wanted="[Hostd]
Endpoint=$ENDPOINT"
# A collector without TLS may start runs here: for a network where everyone is trusted.
case $ENDPOINT in
http:*) wanted="$wanted
[Registry]
Kind=collector" ;;
esac
changed=no
if [ "$(cat $site 2>/dev/null)" != "$wanted" ]; then
        mkdir -p "${site%/*}"
        printf '%s\n' "$wanted" >"$site.new"
        mv "$site.new" "$site"
        changed=yes
fi

if ! command -v tpu-hostd >/dev/null; then
        folder=$(mktemp -d)
        trap 'rm -rf "$folder"' EXIT
        chmod 755 "$folder" # apt reads as a user of its own
        gcloud storage cp "$PACKAGES/*.deb" "$folder/"
        # What starts first on these images holds dpkg's lock for some minutes.
        DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=600 install "$folder"/*.deb
elif [ $changed = yes ]; then
        systemctl restart tpu-hostd.service
fi
