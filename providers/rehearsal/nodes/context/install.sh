#!/bin/sh
# The last step of the image: puts the files of this folder where they belong.
set -eu
cd /usr/lib/rehearsal
chmod 755 ./*.sh
mkdir -p /etc/rehearsal /etc/docker
cp ./*.service ./*.socket /etc/systemd/system/
cp daemon.json /etc/docker/daemon.json
ln -s /usr/lib/rehearsal/gcloud.sh /usr/local/bin/gcloud
ln -s /usr/lib/rehearsal/docker.sh /usr/local/bin/docker
ln -s /usr/lib/rehearsal/bucket.sh /usr/local/bin/gcsfuse
ln -s /usr/lib/rehearsal/bucket.sh /usr/local/bin/mount-s3
ln -s /usr/lib/rehearsal/mount.sh /usr/local/bin/mount
ln -s /usr/lib/rehearsal/lsblk.sh /usr/local/bin/lsblk
mkdir -p /usr/lib/systemd/system-shutdown
ln -s /usr/lib/rehearsal/ended.sh /usr/lib/systemd/system-shutdown/rehearsal
ln -s /usr/lib/rehearsal/gpu_hook.sh /usr/bin/nvidia-container-runtime-hook
ln -s /etc/rehearsal/nvidia-smi /usr/bin/nvidia-smi
systemctl enable rehearsal-boot.service rehearsal-start-up.service rehearsal-metadata.socket
systemctl disable haproxy.service
systemctl mask getty.target console-getty.service apt-daily.timer apt-daily-upgrade.timer
