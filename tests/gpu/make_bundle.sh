#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Puts into one folder what the GPU tests need on a machine with an NVIDIA driver, a C library and Python 3.9: no packages, no
# toolkit, no symbolic links. Prints its size, and fails if it is more than 40 MiB as an archive.
#
# usage: make_bundle.sh BUNDLE BIN_DIR SHIPPED_DIR RECORDER LIBCUPTI WHEELS_DIR NVCC CUDA12_DIR PYTORCH
set -euo pipefail
cd "$(dirname "$0")/../.."
bundle=$1 bin=$2 shipped=$3 recorder=$4 cupti=$5 wheels=$6 nvcc=$7 cuda12=$8 pytorch=$9
limit=$((40 << 20))

rm -rf "$bundle"
mkdir -p "$bundle"/{bin,lib,recorder,gpu_tests/jobs,pytorch,cupti}
for program in capture cupti_study gpu_worker gpu_worker_static train_loop_cuda; do
  strip -o "$bundle/bin/$program" "$bin/$program"
done
cp "$shipped"/libjobscope{,_attach}.so "$bundle/lib/"
cp -L "$shipped"/libjobscope_trace.so.0 "$bundle/lib/"
strip -o "$bundle/recorder/libcupti_recorder.so" "$recorder"
for library in cpu cuda; do strip -o "$bundle/pytorch/libtorch_$library.so" "$pytorch/libtorch_$library.so"; done
# For drivers before 580, if they could be built (build_cuda12.sh).
if [[ -d $cuda12/bin12 ]]; then
  mkdir "$bundle"/{bin12,lib12}
  for program in gpu_worker train_loop_cuda; do strip -o "$bundle/bin12/$program" "$cuda12/bin12/$program"; done
  cp "$cuda12/lib12/libcudart.so.12" "$bundle/lib12/"
else
  echo "gpu-bundle: no programs for drivers before 580"
fi

# soname FILE: the name by which programs ask for a library.
soname() { readelf -d "$1" | sed -nE 's/.*\(SONAME\).*\[(.*)\]/\1/p'; }
# A toolkit has its libcupti beside the runtime, or in extras/.
runtime=$(dirname "$cupti")/libcudart.so
[[ -e $runtime ]] || runtime=$(dirname "$cupti")/../../../lib64/libcudart.so
for library in "$cupti" "$runtime"; do cp -L "$library" "$bundle/lib/$(soname "$library")"; done

# libcupti of CUDA 12, of several releases: the runner takes the newest that is not newer than the driver.
mkdir -p "$wheels"
# shellcheck source=tests/collectors/cuda/fetch_wheel.sh
. tests/collectors/cuda/fetch_wheel.sh
for package in nvidia-cuda-cupti-cu12==12.0.146 nvidia-cuda-cupti-cu12==12.4.127 nvidia-cuda-cupti-cu12==12.6.80 \
               nvidia-cuda-cupti-cu12==12.8.90 nvidia-cuda-cupti-cu12==12.9.79; do
  fetch_wheel "$wheels" "$package" || continue
  release=$(sed -E 's/.*==([0-9]+\.[0-9]+)\..*/\1/' <<<"$package")
  mkdir "$bundle/cupti/$release"
  cp -L "$(find "$unpacked" -name 'libcupti.so.*' | head -n 1)" "$bundle/cupti/$release/"
done

cp tests/gpu/run_gpu_tests.py "$bundle/run_gpu_tests"
chmod +x "$bundle/run_gpu_tests"
cp tests/gpu/gpu_tests/*.py "$bundle/gpu_tests/"
cp tests/gpu/gpu_tests/jobs/*.py "$bundle/gpu_tests/jobs/"
cp tests/python/xspace.py "$bundle/"

commit=$(git describe --always --dirty 2>/dev/null || echo unknown)
toolkit=$("$nvcc" --version | sed -nE 's/.*release ([0-9.]+),.*/\1/p')
cat >"$bundle/BUNDLE.json" <<JSON
{"commit": "$commit", "toolkit": "$toolkit", "libcupti": "$(soname "$cupti")", "made": "$(date -u +%Y-%m-%dT%H:%M:%SZ)"}
JSON

# The newest symbols of the C library that anything in it asks for.
glibc=$(readelf -W --dyn-syms "$bundle"/bin*/* "$bundle"/lib*/* "$bundle"/recorder/* 2>/dev/null \
  | grep -oE 'GLIBC_2\.[0-9]+' | sort -uV | tail -n 1)

# What programs ask for must be in the bundle, or on every machine.
missing=0
for file in "$bundle"/bin*/* "$bundle"/lib*/* "$bundle"/recorder/* "$bundle"/pytorch/*; do
  while read -r needed; do
    case $needed in
      libc.so.6 | libm.so.6 | libdl.so.2 | libpthread.so.0 | librt.so.1 | libutil.so.1 | libgcc_s.so.1 | ld-linux-x86-64.so.2 | linux-vdso.so.1) ;;
      *) [[ -e $bundle/lib/$needed || -e $bundle/lib12/$needed || -e $bundle/pytorch/$needed ]] || { echo "gpu-bundle: $file needs $needed, which is not in the bundle" >&2; missing=1; } ;;
    esac
  done < <(readelf -d "$file" 2>/dev/null | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p')
done
[[ $missing -eq 0 ]] || exit 1

size=$(tar -C "$bundle" -cz . | wc -c)
du -ab "$bundle" | sort -rn | head -12 | sed "s#$bundle#  .#"
echo "gpu-bundle: $bundle, $(($(du -sb "$bundle" | cut -f1) >> 20)) MiB, $((size >> 20)) MiB as tar.gz, C library from ${glibc#GLIBC_} on"
if [[ $size -gt $limit ]]; then
  echo "gpu-bundle: more than $((limit >> 20)) MiB: too large to be carried" >&2
  exit 1
fi

# They start from there; without a GPU the workers say so, and end with 3.
"$bundle/bin/capture" --version
for worker in bin/gpu_worker bin/gpu_worker_static bin12/gpu_worker; do
  [[ -e $bundle/$worker ]] || continue
  code=0
  said=$("$bundle/$worker" </dev/null 2>&1) || code=$?
  if [[ $code -ne 0 && ! ($code -eq 3 && $said == *"no CUDA device"*) ]]; then
    echo "gpu-bundle: $worker does not start (exit code $code): $said" >&2
    exit 1
  fi
done
