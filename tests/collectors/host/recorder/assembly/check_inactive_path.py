#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pins what a site costs while it is off: load the pointer, test the mask, jump.

Compiles inactive_path.cc as users would, disassembles it, and walks each function the way it runs
while the mask is 0: a clock would only tell how busy the machine is.

Usage: check_inactive_path.py COMPILER SOURCE INCLUDE_DIR
"""
import platform
import re
import subprocess
import sys
import tempfile

SKIPPED = 77
# Conditional jumps on the way: the mask's, and for a scope perhaps one at its end: did it begin?
JUMPS = {
    "InactiveInstant": 1,
    "InactiveInstantWithArgs": 1,
    "InactiveCounter": 1,
    "InactiveScope": 2,
    "InactiveStep": 2,
    "InactiveScopeWithArgs": 2,
}
FRAME = re.compile(
    r"^(push|pop|ret|endbr64|leave)\b|^(sub|add|lea)\s.*%rsp$|^nop|^xchg\s+%ax,%ax|^data16|^cs nop"
)
# Keeping an argument alive over the call, "no scope here", and looking at that again.
CARRY = re.compile(r"^(mov|movl|movq|movsd|movss|movaps|movups|xor)\s")


def disassemble(compiler, source, include, options):
    with tempfile.NamedTemporaryFile(suffix=".o") as out:
        command = [compiler, "-std=c++17", *options, "-I", include, "-c", source, "-o", out.name]
        subprocess.run(command, check=True)
        text = subprocess.run(["objdump", "-dr", "--no-show-raw-insn", out.name],
                              check=True, capture_output=True, text=True).stdout
    functions, current = {}, None
    for line in text.splitlines():
        if match := re.match(r"^[0-9a-f]+ <(\w+)>:$", line):
            current = functions.setdefault(match[1], [])
        elif match := re.match(r"^\s+([0-9a-f]+):\s+R_X86_64_\w+\s+(\S+)", line):
            if current:
                current[-1]["symbol"] = match[2]
        elif (match := re.match(r"^\s+([0-9a-f]+):\s+(.*)$", line)) and current is not None:
            text = match[2].split("#")[0].strip()
            current.append({"at": int(match[1], 16), "text": text, "symbol": ""})
    return functions


def walk(name, code):
    """The instructions that run while the mask is 0, in order: every test finds 0."""
    index = {instruction["at"]: i for i, instruction in enumerate(code)}
    path, i = [], 0
    while True:
        instruction = code[i]
        path.append(instruction)
        text = instruction["text"]
        if text.startswith("ret"):
            return path
        if len(path) > 60:
            raise AssertionError(f"{name}: no end in sight after 60 instructions")
        if match := re.match(r"^(je|jmp)\s+([0-9a-f]+)", text):
            target = int(match[2], 16)
            if target not in index:  # a tail call
                return path
            i = index[target]
        else:
            i += 1


def check(name, code):
    path = walk(name, code)
    listing = "\n".join(f"    {p['text']}  {p['symbol']}" for p in path)

    def demand(condition, what):
        if not condition:
            raise AssertionError(f"{name}: {what}; the inactive path is\n{listing}")

    masks = [i for i, p in enumerate(path) if p["symbol"].startswith("jobscope_detail_mask")]
    demand(len(masks) == 1, f"the mask's pointer is loaded {len(masks)} times, not once")
    writers = [p for p in path if "jobscope_detail_writer" in p["symbol"]]
    demand(not writers, "the writer table is touched")
    calls = [p for p in path if p["text"].startswith("call") or p["text"].startswith("jmp *")]
    demand(all(p["symbol"].startswith("Work") for p in calls), "something but Work is called")
    costly = re.compile(r"^(lock|rdtsc|mfence|lfence|cpuid|syscall)")
    demand(not any(costly.match(p["text"]) for p in path), "a costly instruction")
    jumps = [i for i, p in enumerate(path) if re.match(r"^j(e|ne)\b", p["text"])]
    demand(
        1 <= len(jumps) <= JUMPS[name],
        f"{len(jumps)} conditional jumps, at most {JUMPS[name]} expected",
    )

    # From the load of the pointer to the jump: at most load, load, test, jump.
    part = [p["text"] for p in path[masks[0] : jumps[0] + 1]]
    part = [t for t in part if not CARRY.match(t) or "(" in t]
    part = [t for t in part if not re.match(r"^mov\w*\s+\$0x0,", t)]
    demand(len(part) <= 4, f"the check takes {len(part)} instructions")
    tests = [t for t in part if re.match(r"^test[bl]?\s+\$0x[0-9a-f]+,", t)]
    demand(len(tests) == 1, "the bit is not a constant")

    # The rest: the frame, what is carried over the call, the second test.
    rest = [
        p["text"]
        for i, p in enumerate(path)
        if not masks[0] <= i <= jumps[0] and i not in jumps and p not in calls
    ]
    fine = re.compile(r"^(test|cmp|jmp)")
    odd = [t for t in rest if not (FRAME.match(t) or CARRY.match(t) or fine.match(t))]
    demand(not odd, f"unexpected: {odd}")
    return len(path)


def main():
    if platform.machine() != "x86_64":
        print("x86-64 only")
        return SKIPPED
    compiler, source, include = sys.argv[1:]
    for options in (["-O2", "-fPIC"], ["-O2", "-fno-pic"], ["-O3", "-fPIE"]):
        functions = disassemble(compiler, source, include, options)
        for name in JUMPS:
            count = check(name, functions[name])
            print(f"{' '.join(options)}: {name}: {count} instructions")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except AssertionError as error:
        sys.exit(str(error))
