# SPDX-License-Identifier: Apache-2.0
#
# The versions of the packages whose archives are linked into what is shipped, as a file on which those targets depend.
# Debian's files have the date of their source package: an archive with a fix can be older than the last build.
set(jobscope_linked_packages ${PROJECT_BINARY_DIR}/linked_packages.txt)
execute_process(
  COMMAND dpkg-query -W -f "\${Package} \${Version}\n" libgrpc-dev libgrpc++-dev libssl-dev libc-ares-dev zlib1g-dev
          libabsl-dev libre2-dev libprotobuf-dev "libstdc++-*-dev"
  OUTPUT_VARIABLE jobscope_versions ERROR_QUIET RESULT_VARIABLE jobscope_ignored)  # other systems have no dpkg
file(CONFIGURE OUTPUT ${jobscope_linked_packages} CONTENT "${jobscope_versions}" @ONLY)  # writes only what differs
