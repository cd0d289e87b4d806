#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the bundle's programs once more for drivers from 525 on: over the CUDA runtime 12.0, with device code that such drivers know.
# The compiler is the toolkit's nvcc; assembler and runtime are those of 12.0, as pip brings them. The assembler gets PTX that says an
# earlier version of itself than nvcc writes: it refuses what that version did not have.
#
# usage: build_cuda12.sh NVCC CXX WHEELS_DIR OUT_DIR SOURCE_DIR LIBJOBSCOPE LIBJOBSCOPE_TRACE OBJECT...
#
# Leaves OUT_DIR/bin12 and OUT_DIR/lib12; nothing, and says why, if the wheels are unavailable.
set -euo pipefail
nvcc=$1 cxx=$2 wheels=$3 out=$4 source=$5 libraries=("$6" "$7")
shift 7
objects=("$@")
# The newest PTX that drivers from 525 on (CUDA 12.0) translate is 8.0; ours needs nothing that 7.8 has not.
ptx=7.8

rm -rf "$out"
mkdir -p "$wheels" "$out"
# shellcheck source=tests/collectors/cuda/fetch_wheel.sh
. "$source/tests/collectors/cuda/fetch_wheel.sh"
declare -A folder
for package in nvidia-cuda-runtime-cu12==12.0.146 nvidia-cuda-nvcc-cu12==12.0.140; do
  if ! fetch_wheel "$wheels" "$package"; then
    echo "gpu-bundle: no programs for drivers before 580"
    exit 0
  fi
  folder[${package%%==*}]=$(realpath "$unpacked")
done
ptxas=${folder[nvidia-cuda-nvcc-cu12]}/nvidia/cuda_nvcc/bin/ptxas
runtime=${folder[nvidia-cuda-runtime-cu12]}/nvidia/cuda_runtime/lib/libcudart.so.12
chmod +x "$ptxas"

# A toolkit with another assembler: nvcc looks for its tools beside itself.
toolkit=$(dirname "$(dirname "$(realpath "$nvcc")")")
mkdir -p "$out/toolkit/bin"
for tool in "$toolkit"/bin/*; do
  [[ $(basename "$tool") == ptxas ]] || ln -s "$tool" "$out/toolkit/bin/"
done
rm -f "$out/toolkit/bin/nvcc" "$out/toolkit/bin/nvcc.profile"
cp "$toolkit/bin/nvcc" "$toolkit/bin/nvcc.profile" "$out/toolkit/bin/"
for part in nvvm include lib64 lib targets; do
  [[ ! -e $toolkit/$part ]] || ln -s "$toolkit/$part" "$out/toolkit/"
done
# What it assembles is also what is embedded as intermediate code.
cat >"$out/toolkit/bin/ptxas" <<SCRIPT
#!/usr/bin/env bash
for argument in "\$@"; do
  [[ \$argument != *.ptx || ! -f \$argument ]] || sed -i -E 's/^\\.version [0-9.]+\$/.version $ptx/' "\$argument"
done
exec '$ptxas' "\$@"
SCRIPT
chmod +x "$out/toolkit/bin/ptxas"

mkdir -p "$out"/{bin12,lib12,objects}
cp "$runtime" "$out/lib12/"
for file in tests/gpu/worker/cuda_device.cu examples/train_loop.cu; do
  "$out/toolkit/bin/nvcc" -std=c++17 -O2 -no-compress -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 \
    -gencode arch=compute_80,code=compute_80 -ccbin "$cxx" -Xcompiler -fPIC -I"$source" -I"$source/include" \
    -c "$source/$file" -o "$out/objects/$(basename "$file").o"
done
# link NAME OBJECT...
link() {
  local name=$1
  shift
  "$cxx" -static-libstdc++ -static-libgcc "$@" -o "$out/bin12/$name" "${libraries[@]}" "$out/lib12/libcudart.so.12" \
    "-Wl,-rpath=\$ORIGIN/../lib12:\$ORIGIN/../lib" -lpthread -ldl -lrt
}
link gpu_worker "$out/objects/cuda_device.cu.o" "${objects[@]}"
link train_loop_cuda "$out/objects/train_loop.cu.o"

# What an earlier driver refuses: newer intermediate code, newer machine code, functions that the runtime 12.0 lacks (the link fails).
versions=$(strings -a "$out/bin12/gpu_worker" "$out/bin12/train_loop_cuda" | grep -E '^\.version ' | sort -u)
if [[ $versions != ".version $ptx" ]]; then
  echo "gpu-bundle: intermediate code is of version ${versions:-none}, not $ptx" >&2
  exit 1
fi
rm -rf "$out/toolkit" "$out/objects"
