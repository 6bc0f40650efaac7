#!/bin/sh
# cuda.sh FOLDER: makes FOLDER/nvidia/cu13, where pip put nvcc, a CUDA toolkit, and prints its path. Headers and libraries are those that
# PyTorch brought: Horovod is compiled against what it runs with. Linkers look for names without a version, which these packages lack.
set -eu
home=$1/nvidia/cu13
packages=$(python3 -c "import nvidia.nccl; print(list(nvidia.nccl.__path__)[0])")/..
cp -rsn "$packages/cu13/include/." "$packages/nccl/include/." "$home/include/"
cp -rsn "$packages/cu13/lib/." "$packages/nccl/lib/." "$home/lib/"
for name in libcudart.so libnccl.so; do
  ln -sf "$(basename "$home/lib/$name".*)" "$home/lib/$name"
done
# PyTorch's build tools look for libraries in lib64 only.
ln -sfn lib "$home/lib64"
echo "$home"
