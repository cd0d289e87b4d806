# SPDX-License-Identifier: Apache-2.0
#
# The front end: each target installs what it needs (Debian 12, root or sudo) and says what it does. The work itself is
# CMake's: presets in CMakePresets.json, and ctest.

# Compilers at a time.
JOBS ?= 2
# Tests at a time: most of them wait for most of their time.
TEST_JOBS ?= $$((4 * $(JOBS)))
# More arguments for ctest, such as CTEST_ARGS='-R session'.
CTEST_ARGS ?=

# Without these ccache does not keep what is compiled with precompiled headers.
export CCACHE_SLOPPINESS ?= pch_defines,time_macros
# Without this ccache runs the preprocessor before each compilation that it has not kept.
export CCACHE_DEPEND ?= 1

# ccache where it is: install_deps brings it. Asked by the shell, because make expands a recipe before its first line has run, and
# a launcher that came and went would rebuild everything.
CONFIGURE = cmake $$(command -v ccache >/dev/null && echo -DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache) --log-level=WARNING --preset
BUILD = cmake --build -j $(JOBS) --preset
CTEST = ctest -j $(TEST_JOBS) --output-on-failure --schedule-random

.PHONY: help build demo test check compat interop torch-suite torch-versions bench lint format shipped sbom reproducible wheel long tsan tsan-long asan asan-unit fuzz fuzz-coverage faults soak nightly gpu-bundle gpu-test clean
.NOTPARALLEL:
.DEFAULT_GOAL := help

help: ## Lists the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Builds all programs into build/bin/
	tools/install_deps.sh build
	$(CONFIGURE) release
	$(BUILD) release --target jobscope_programs

demo: ## Captures two training programs and reports which one is slow, and why
	tools/install_deps.sh build
	$(CONFIGURE) release
	$(BUILD) release --target capture train_loop
	examples/demo.sh build/bin build/demo

shipped: ## Builds what `cmake --install build` installs: libjobscope.so, libjobscope_trace.so, libjobscope_attach.so, capture
	tools/install_deps.sh build test
	tools/pic_deps.sh
	$(CONFIGURE) release -DJOBSCOPE_PIC_DEPS="$$(tools/pic_deps.sh --print-prefix)"
	$(BUILD) release --target jobscope_shipped capture

test: shipped ## Runs all tests except the long ones and those with peers from PyPI
	$(BUILD) release
	$(CTEST) --preset release -LE 'long|interop' $(CTEST_ARGS)

# Leaves out the tests that `make faults` and `make torch-suite` run.
long: shipped ## Runs the tests of label long: full rings, large traces, fine ladders, every Python (up to 6 GiB of memory)
	$(BUILD) release
	JOBSCOPE_LONG_TESTS=1 $(CTEST) --preset release --no-tests=error -L '^long$$' -LE faults $(CTEST_ARGS)

sbom: shipped ## Lists the components of the shipped libraries in build/shipped/sbom.cdx.json (CycloneDX)
	$(BUILD) release --target sbom

reproducible: ## Builds the shipped libraries twice, in two folders, and compares them byte by byte
	tools/install_deps.sh build
	tools/pic_deps.sh
	tools/reproducible.sh

check: ## Builds and runs only the tests whose names or sources contain T: make check T=endpoint
	@test -n "$(T)" || { echo "make check: say which tests: make check T=endpoint" >&2; exit 2; }
	@test -f build/tests/sources.txt || { tools/install_deps.sh build test && $(CONFIGURE) release; }
	@targets=$$(ninja -C build -t targets all | sed -nE 's/^([a-z_0-9]*$(T)[a-z_0-9]*(_test|_fuzzer)): phony$$/\1/p'); \
	  programs=$$(awk '/$(T)/ { print $$1 }' build/tests/sources.txt); \
	  test -z "$$targets$$programs" || $(BUILD) release --target $$targets $$programs || exit; \
	  $(CTEST) --preset release --no-tests=error -R "$(T)$$(printf '|^%s([.][0-9]+)?$$' $$programs)" $(CTEST_ARGS)

# The first revision whose clients and workers this tree still serves.
COMPAT_REVISION ?= ab90d2c

compat: ## Tests clients and workers of another revision against this tree's, both ways: COMPAT_REVISION=ab90d2c
	tools/install_deps.sh build test
	$(CONFIGURE) release
	$(BUILD) release --target capture clock_worker
	JOBS=$(JOBS) tests/compat/run.sh build $(COMPAT_REVISION)

wheel: shipped ## Builds the Python wheel into build/wheel/, and captures a process of a fresh environment with it
	$(BUILD) release --target jobscope_python_package
	JOBSCOPE_BUILD_DIR=build python/build_wheel.sh build/wheel
	python3 python/try_wheel.py build/wheel

interop: shipped ## Runs the tests with TensorFlow, JAX, XProf, grpcio and py-spy from PyPI, and Debian's PyTorch and Chromium
	tools/install_deps.sh interop
	tools/venv.sh
	$(BUILD) release
	$(CTEST) --preset release -L interop $(CTEST_ARGS)

torch-suite: shipped ## Runs the long tests with PyPI's PyTorch: torchrun, DDP over gloo (5.4 GB on disk)
	tools/install_deps.sh interop
	JOBSCOPE_VENV=torch tools/venv.sh
	$(BUILD) release
	$(CTEST) --preset release -L torch_long $(CTEST_ARGS)

torch-versions: shipped ## Runs the PyTorch tests with each version in turn: TORCH_VERSIONS="2.4.1 2.9.1" (6 GB on disk at a time)
	$(BUILD) release
	tests/collectors/torch/torch_versions.py build $(TORCH_VERSIONS)

bench: shipped ## Measures the cost of scopes and of captures, beside the stock pair, into build/bench/ (BENCH_FLAGS: bench/run.sh)
	tools/install_deps.sh bench interop
	tools/venv.sh
	$(BUILD) release --target jobscope_programs jobscope_python_package made_runs
	bench/run.sh build/bin build/bench $(BENCH_FLAGS)

lint: ## Checks formatting, clang-tidy, shellcheck, Python, include rules
	tools/install_deps.sh build lint
	JOBSCOPE_VENV=lint tools/venv.sh
	$(CONFIGURE) lint
	tests/tooling/lint.sh build/lint

format: ## Formats all C++ sources in place
	tools/install_deps.sh lint
	git ls-files '*.cc' '*.h' '*.c' | xargs clang-format -i

asan: ## Runs all tests with AddressSanitizer and UBSan, those of the shipped library and of the Python package included
	tools/install_deps.sh build test
	tools/pic_deps.sh
	$(CONFIGURE) asan -DJOBSCOPE_PIC_DEPS="$$(tools/pic_deps.sh --print-prefix)"
	$(BUILD) asan
	$(CTEST) --preset asan -LE 'long|interop' $(CTEST_ARGS)

# Instrumented programs are several times as slow, and some tests' workers must keep up.
asan-unit: TEST_JOBS = $$((2 * $(JOBS)))
asan-unit: ## Runs the unit and service tests with AddressSanitizer, LeakSanitizer and UBSan
	tools/install_deps.sh build test
	$(CONFIGURE) asan -DJOBSCOPE_PIC_DEPS=
	$(BUILD) asan --target unit_tests
	$(CTEST) --preset asan --no-tests=error -L 'unit|fuzz' -LE long $(CTEST_ARGS)

tsan: ## Runs all tests without gRPC (see CONTRIBUTING.md) with clang's ThreadSanitizer
	tools/install_deps.sh build test clang
	$(CONFIGURE) tsan
	$(BUILD) tsan --target tsan_tests
	$(CTEST) --preset tsan --no-tests=error -L tsan -LE long $(CTEST_ARGS)

tsan-long: ## The recorder's accounting under ThreadSanitizer, 100 million records in each of its six forms
	tools/install_deps.sh build test clang
	$(CONFIGURE) tsan
	$(BUILD) tsan --target recorder_stress_test
	JOBSCOPE_LONG_TESTS=1 $(CTEST) --preset tsan --no-tests=error -L tsan_long $(CTEST_ARGS)

# For how long each fuzzer runs.
FUZZ_SECONDS ?= 60

fuzz: ## Builds the fuzzers and runs each for a minute
	tools/install_deps.sh build test clang
	$(CONFIGURE) fuzz
	$(BUILD) fuzz --target fuzzers
	tests/tooling/fuzz.sh build/fuzz/tests $(FUZZ_SECONDS)

fuzz-coverage: fuzz ## The same, and which lines of the parsers they reach, into docs/reliability.md
	python3 -B tests/tooling/fuzz_coverage.py build/fuzz/tests --write

FAULTS = python3 -B tests/faults/faults.py build/python/jobscope build/tests/libfault_shim.so build/tests/librecorder_module_a.so
# More arguments, such as FAULTS_ARGS='--only "link cut"'.
FAULTS_ARGS ?= --write

faults: shipped ## Runs the fault matrix (kill, stop, disconnect, full disk) and writes docs/reliability.md (root runs all rows)
	$(BUILD) release --target faults
	$(FAULTS) $(FAULTS_ARGS)

# More arguments, such as SOAK_ARGS='--captures 100 --minutes 5'.
SOAK_ARGS ?= --write

soak: shipped ## Runs 1,000 captures of one worker, then 30 minutes with cancels and forks; writes its growth into docs/reliability.md
	$(BUILD) release --target jobscope_python_package
	python3 -B tests/faults/soak.py build/python/jobscope $(SOAK_ARGS)

# The order is that of the time they take.
NIGHTLY = reproducible compat faults tsan-long asan soak long fuzz-coverage

nightly: $(NIGHTLY) ## What takes long: sanitizers, long tests, fuzzers with coverage, faults, soak, earlier revisions, a second build

gpu-bundle: shipped ## Builds build/gpu-test/: the GPU tests, for a machine with only a driver (needs nvcc here)
	$(BUILD) release --target cupti_probe
	tests/collectors/cuda/wheels_test.sh build/tests/cupti_probe build/wheels || echo "gpu-bundle: goes on without the wheels"
	$(BUILD) release --target gpu_bundle

# Where nvcc is, the bundle is made anew; where a GPU is, it is run. Without a GPU this fails with the runner's code 77: nothing
# was tested, which is no pass.
GPU_ARGS ?=
gpu-test: ## Runs the GPU tests here, results in build/gpu-results/ (needs a GPU)
	@if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then $(MAKE) gpu-bundle; \
	elif [ ! -x build/gpu-test/run_gpu_tests ]; then echo "gpu-test: NOT RUN: no nvcc here, and no bundle in build/gpu-test/"; exit 77; fi
	@build/gpu-test/run_gpu_tests --out=build/gpu-results $(GPU_ARGS)

clean: ## Removes build/
	rm -rf build
