#!/bin/sh
# cuda.sh REPOSITORY PACKAGE...: CUDA's compiler and NCCL's headers, to compile Horovod against; nothing of them stays in the image.
set -eu
repository=$1
shift
apt-get update
apt-get install -y --no-install-recommends ca-certificates curl
curl --fail --silent --show-error --location --output /tmp/keyring.deb "$repository/cuda-keyring_1.1-1_all.deb"
dpkg --install /tmp/keyring.deb
apt-get update
apt-get install -y --no-install-recommends "$@"
[ -e /usr/local/cuda ] || ln -s "$(ls -d /usr/local/cuda-* | sort -V | tail -n 1)" /usr/local/cuda
rm -rf /tmp/keyring.deb /var/lib/apt/lists/*
