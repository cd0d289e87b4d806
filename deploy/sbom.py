#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the bill of materials of what is shipped, CycloneDX 1.5 in JSON: the libraries, and the client and the Python extension of the
wheel where those are built.

    deploy/sbom.py BUILD_FOLDER [OUTPUT]        default: BUILD_FOLDER/shipped/sbom.cdx.json

It is made from what was built, not from a list: archives and their members from the linker's map, shared libraries from the
libraries' own headers, header-only libraries from the compilers' dependency files of the objects that were linked. Debian's
package database names the package and version of each file; archives of tools/pic_deps.sh carry the version of their source
package. A file that belongs to nobody ends it with an error. The same build gives the same bytes.
"""
import hashlib
import json
import os
import re
import subprocess
import sys
import uuid

# In place of an architecture: a Python that no package manager knows, found by its headers.
GENERIC = "generic"


def purl_of(name, version, arch):
    if arch == GENERIC:
        return f"pkg:generic/{name}@{version}"
    return f"pkg:deb/debian/{name}@{version}?arch={arch}"


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class Packages:
    """Which package a file is of."""

    def __init__(self, pic_deps):
        self.pic_deps = os.path.realpath(pic_deps)
        self.rebuilt = {}
        with open(os.path.join(pic_deps, "complete"), encoding="ascii") as lines:
            self.rebuilt = dict(line.split() for line in lines)
        self.owners = {}
        self.versions = {}

    def _rebuilt_source(self, path):
        name = os.path.basename(path)
        for prefix, source in (("libabsl_", "abseil"), ("libre2", "re2"), ("libprotobuf", "protobuf")):
            if name.startswith(prefix):
                return source
        raise SystemExit(f"sbom: {path}: no source package is known for it")

    def find(self, paths):
        """{(name, version, arch): files}; of source packages, the architecture is "source", of a Python of its own GENERIC."""
        found = {}
        wanted = []
        for path in {os.path.realpath(path) for path in paths}:
            if path.startswith(self.pic_deps + os.sep):
                source = self._rebuilt_source(path)
                found.setdefault((source, self.rebuilt[source], "source"), []).append(path)
            elif path not in self.owners:
                wanted.append(path)
        self._ask(wanted)
        for path in {os.path.realpath(path) for path in paths} - {p for files in found.values() for p in files}:
            found.setdefault(self._version(self.owners[path], path), []).append(path)
        return found

    def _ask(self, paths):
        # Debian 12 has /lib in /usr/lib, and its database knows some files by the older name.
        names = {}
        for path in paths:
            names[path] = path
            if path.startswith("/usr/lib"):
                names[path[len("/usr") :]] = path
        if not names:
            return
        done = subprocess.run(["dpkg-query", "-S", *names], capture_output=True, text=True, check=False)
        for line in done.stdout.splitlines():
            owner, _, name = line.partition(": ")
            if name in names and not owner.startswith("diversion "):
                self.owners[names[name]] = owner.split(", ")[0]
        missing = []
        for path in paths:
            if path not in self.owners and not self._is_of_python(path):
                missing.append(path)
        if missing:
            raise SystemExit(f"sbom: no Debian package has {missing[0]} (and {len(missing) - 1} more): install it as a package")

    def _is_of_python(self, path):
        folder = re.match(r".*/include/python3[^/]*(?=/)", path)
        header = os.path.join(folder.group(), "patchlevel.h") if folder else ""
        if not os.path.exists(header):
            return False
        with open(header, encoding="utf-8") as file:
            version = re.search(r'^#define PY_VERSION\s+"([^"]+)"', file.read(), re.MULTILINE).group(1)
        self.owners[path] = f"python {version}"
        self.versions[self.owners[path]] = ("python", version, GENERIC)
        return True

    def _version(self, owner, path):
        if owner not in self.versions:
            text = run("dpkg-query", "-W", "-f=${Package} ${Version} ${Architecture}", owner)
            if not text:
                raise SystemExit(f"sbom: {path}: package {owner} has no version")
            self.versions[owner] = tuple(text.split())
        return self.versions[owner]


def linked_archives(build, map_file):
    """Archives of which the linker took a member, and objects; those of the build by their names in its folder."""

    def named(path):
        return os.path.relpath(path, build) if path.startswith(build + os.sep) else path

    archives, objects = set(), set()
    with open(map_file, encoding="utf-8", errors="replace") as file:
        included, _, rest = file.read().partition("\nDiscarded input sections")
    for match in re.finditer(r"^(\S+\.a)\(([^)]+)\)", included, re.MULTILINE):
        archives.add(named(match.group(1)))
    for match in re.finditer(r"^LOAD (\S+\.o)$", rest, re.MULTILINE):
        objects.add(named(match.group(1)))
    return archives, objects


def headers_of(build, objects):
    """Headers outside of the project and of the build, that the objects were compiled with."""
    source = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    headers = set()
    wanted = False
    for line in run("ninja", "-C", build, "-t", "deps").splitlines():
        if line and not line.startswith(" "):
            wanted = line.split(":")[0] in objects
        elif wanted and line.strip():
            path = os.path.normpath(os.path.join(build, line.strip()))
            if not path.startswith((source + os.sep, os.path.realpath(build) + os.sep)):
                headers.add(path)
    return headers


def members_of(build, archive):
    """The objects of one of our own archives, as ninja names them."""
    names = set(run("ar", "t", os.path.join(build, archive)).split())
    folder = os.path.dirname(archive)
    prefix = os.path.join(folder, "CMakeFiles", os.path.basename(archive)[len("lib") : -len(".a")] + ".dir")
    members = set()
    for root, _, files in os.walk(os.path.join(build, prefix)):
        members |= {os.path.relpath(os.path.join(root, file), build) for file in files if file in names}
    return members


def needed_libraries(library):
    """Shared libraries by their names; the loader finds them on the machine, so they have no version here."""
    return re.findall(r"NEEDED.*\[(.+)\]", run("readelf", "-dW", library))


def component_of(package, files, scope):
    name, version, arch = package
    return {
        "type": "library",
        "bom-ref": purl_of(name, version, arch),
        "name": name,
        "version": version,
        "scope": "required",
        "purl": purl_of(name, version, arch),
        "properties": [
            {"name": "jobscope:use", "value": scope},
            {"name": "jobscope:files", "value": ", ".join(sorted({os.path.basename(file) for file in files})[:20])},
        ],
    }


def cache_variable(build, name):
    with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as lines:
        for line in lines:
            if line.startswith(name + ":"):
                return line.strip().partition("=")[2]
    return ""


# name, type, path, linker's map; all in the build folder
SHIPPED = (
    ("libjobscope.so", "library", "shipped/libjobscope.so", "shipped/libjobscope.so.map"),
    ("libjobscope_trace.so.0", "library", "shipped/libjobscope_trace.so.0", "lib/libjobscope_trace.so.map"),
    ("libjobscope_attach.so", "library", "shipped/libjobscope_attach.so", "lib/libjobscope_attach.so.map"),
)
# Without Python.h there is no wheel, and without gRPC's archives its client is linked with shared libraries, which have no version here.
WHEEL = (
    ("capture", "application", "portable/capture", "portable/capture.map"),
    ("_native.abi3.so", "library", "python/jobscope/_native.abi3.so", "python/_native.abi3.so.map"),
)


def check_linked_packages(build):
    """Ends the program if a package is no longer the one that was linked: the database lists only what is installed now."""
    with open(os.path.join(build, "linked_packages.txt"), encoding="utf-8") as file:
        linked = dict(line.rstrip("\n").split(" ", 1) for line in file)
    for package, version in linked.items():
        now = run("dpkg-query", "-W", "-f=${Version}", package)
        if now != version:
            raise SystemExit(f"sbom: {package} is {now} now, and was {version} when {build} was configured: run make shipped first")


def main(build, output=None):
    build = os.path.realpath(build)
    shipped = os.path.join(build, "shipped")
    output = output or os.path.join(shipped, "sbom.cdx.json")
    pic_deps = cache_variable(build, "JOBSCOPE_PIC_DEPS")
    if not pic_deps:
        raise SystemExit(f"sbom: {build} was configured without JOBSCOPE_PIC_DEPS: run make shipped first")
    version = cache_variable(build, "CMAKE_PROJECT_VERSION")
    check_linked_packages(build)
    packages = Packages(pic_deps)
    components, dependencies, parts = {}, {}, []
    wheel = [part for part in WHEEL if os.path.exists(os.path.join(build, part[2]))]
    for name, kind, path, map_file in (*SHIPPED, *wheel):
        path = os.path.join(build, path)
        archives, objects = linked_archives(build, os.path.join(build, map_file))
        ours = {archive for archive in archives if not os.path.isabs(archive)}
        foreign = archives - ours
        own_objects = {item for item in objects if not os.path.isabs(item)}
        for archive in ours:
            own_objects |= members_of(build, archive)
        found = [("linked in", packages.find(foreign | {item for item in objects if os.path.isabs(item)}))]
        found.append(("headers compiled in", packages.find(headers_of(build, own_objects))))
        reference = f"pkg:generic/jobscope/{name}@{version}"
        used = dependencies.setdefault(reference, set())
        for scope, packages_found in found:
            for package, files in packages_found.items():
                component = component_of(package, files, scope)
                components.setdefault(component["bom-ref"], component)
                used.add(component["bom-ref"])
        parts.append(
            {
                "type": kind,
                "bom-ref": reference,
                "name": name,
                "version": version,
                "hashes": [{"alg": "SHA-256", "content": sha256(path)}],
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "properties": [{"name": "jobscope:needs", "value": ", ".join(sorted(needed_libraries(path)))}],
            }
        )
    root = f"pkg:generic/jobscope@{version}"
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "bom-ref": root, "name": "jobscope", "version": version},
            "tools": {"components": [{"type": "application", "name": "deploy/sbom.py", "version": version}]},
        },
        "components": parts + [components[key] for key in sorted(components)],
        "dependencies": [{"ref": root, "dependsOn": sorted(dependencies)}]
        + [{"ref": key, "dependsOn": sorted(dependencies[key])} for key in sorted(dependencies)],
    }
    # Of the content, so that the same build has the same number.
    bom["serialNumber"] = "urn:uuid:" + str(uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(bom, sort_keys=True)))
    with open(output, "w", encoding="utf-8") as file:
        json.dump(bom, file, indent=2, sort_keys=True)
        file.write("\n")
    print(f"{output}: {len(components)} packages in {', '.join(part['name'] for part in parts)}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
