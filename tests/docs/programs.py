# SPDX-License-Identifier: Apache-2.0
"""Makes programs of the documents' examples, with what they take for granted (a loader, a model) around them."""
import os
import subprocess

import documents

DEADLINE_S = 120

# A loader of 6 ms per batch and a model of 2 ms, in a process that a file asks to end. What an example takes from its
# program is here, too.
PYTHON_AROUND = """
import os, pathlib, time
import jobscope

class Loader:
    waited_s = 0.0
    def __init__(self, batches):
        self.batches = batches
    def __len__(self):
        return self.batches
    def __iter__(self):
        for _ in range(self.batches):
            if pathlib.Path("stop").exists():
                return
            begin = time.perf_counter()
            time.sleep(0.006)
            self.waited_s += time.perf_counter() - begin
            yield [1, 2, 3]

def model(batch):
    end = time.perf_counter() + 0.002
    while time.perf_counter() < end:
        pass
    return 0.5

def train(steps=20):
    for i, batch in jobscope.steps(Loader(steps)):
        with jobscope.trace("forward"):
            model(batch)

loader = Loader(int(os.environ.get("BATCHES", "20000")))
"""
CPP_AROUND = """
#include <chrono>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>

#include <jobscope/capture.h>

namespace {

struct Batch {
  int rows = 3;
  std::string file = "shard-1";
};

[[maybe_unused]] double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}
[[maybe_unused]] double waited_s = 0;

bool Stopped() { return std::ifstream("stop").good(); }

class Loader {
 public:
  explicit Loader(int64_t batches) : left_(batches) {}
  class Iterator {
   public:
    explicit Iterator(Loader* loader) : loader_(loader) { ++*this; }
    const Batch& operator*() const { return loader_->batch_; }
    Iterator& operator++() {
      if (loader_ != nullptr && !loader_->Next()) loader_ = nullptr;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return loader_ != other.loader_; }
   private:
    Loader* loader_;
  };
  Iterator begin() { return Iterator(this); }
  Iterator end() { return Iterator(nullptr); }
  bool Next() {
    if (left_-- <= 0 || Stopped()) return false;
    const auto begin = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(6));
    waited_s += SecondsSince(begin);
    return true;
  }
 private:
  int64_t left_;
  Batch batch_;
};

struct Queue {
  Loader loader;
  std::optional<Batch> Pop() { return loader.Next() ? std::optional<Batch>(Batch()) : std::nullopt; }
};
// What never ends.
struct EndlessQueue {
  Batch Pop() {
    std::this_thread::sleep_for(std::chrono::milliseconds(6));
    return Batch();
  }
};

[[maybe_unused]] void Train(const Batch&) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
  while (std::chrono::steady_clock::now() < end) {
  }
}
[[maybe_unused]] void Train(int64_t, const Batch& batch) { Train(batch); }
[[maybe_unused]] const Batch batch;

}  // namespace
"""


def run(*command, **options):
    done = subprocess.run(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        timeout=DEADLINE_S, **options
    )  # fmt: skip
    if done.returncode != 0:
        raise AssertionError(f"{command}\n{done.stdout[-6000:]}")
    return done.stdout


def compile_and_link(build, source, *flags):
    """The program that a C or C++ compiler makes of it with the libraries of the build."""
    program = source.with_suffix("")
    compiler = [os.environ.get("CC", "cc"), "-std=c11"] if source.suffix == ".c" else [os.environ.get("CXX", "c++"), "-std=c++17"]
    run(*compiler, "-Wall", *flags, "-Werror", f"-I{documents.ROOT / 'include'}", source, "-o", program, f"-L{build / 'lib'}",
        f"-Wl,-rpath,{build / 'lib'}", "-ljobscope", "-ljobscope_trace", "-pthread")  # fmt: skip
    return program


def cpp(build, scratch, block, declare="", after="", edit=lambda body: body):
    """A program of a block of C++, between `declare` and `after`."""
    includes = "\n".join(line for line in block.text.splitlines() if line.startswith("#include"))
    body = "\n".join(line for line in block.text.splitlines() if not line.startswith("#include")).replace("  ...\n", "")
    source = scratch / "example.cc"
    source.write_text(f"{includes}\n{CPP_AROUND}\nint main() {{\n{declare}\n{edit(body)}\n{after}\n}}\n", encoding="utf-8")
    return compile_and_link(build, source, "-Wextra")
