#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Bakes tpu-hostd into the machine or the chroot on which it runs, as root: sh bake.sh FOLDER
# FOLDER holds the packages (*.deb), and below FOLDER/etc the site's files for all hosts of the image.
set -eu
folder=$(cd "${1:?the folder with the packages}" && pwd)
export DEBIAN_FRONTEND=noninteractive

# What starts first on an image may hold dpkg's lock for some minutes.
apt-get -q -y -o DPkg::Lock::Timeout=600 install "$folder"/*.deb
if [ -d "$folder/etc" ]; then
        cp -R "$folder/etc/." /etc/
fi
for daemon in tpu-hostd tpu-netcfg tpu-launchd; do
        "$daemon" --check-config
done
tpu-hostd --generalize
