# SPDX-License-Identifier: Apache-2.0
#
# What is linked into the shipped programs and libraries from packages.
#
# The versions of these packages, as a file on which those targets depend.
# Debian's files have the date of their source package: an archive with a fix can be older than the last build.
set(jobscope_linked_packages ${PROJECT_BINARY_DIR}/linked_packages.txt)
execute_process(
  COMMAND dpkg-query -W -f "\${Package} \${Version}\n" libgrpc-dev libgrpc++-dev libssl-dev libzstd-dev libc-ares-dev
          zlib1g-dev libabsl-dev libre2-dev libprotobuf-dev "libstdc++-*-dev"
  OUTPUT_VARIABLE jobscope_versions ERROR_QUIET RESULT_VARIABLE jobscope_ignored)  # other systems have no dpkg
file(CONFIGURE OUTPUT ${jobscope_linked_packages} CONTENT "${jobscope_versions}" @ONLY)  # writes only what differs

# What the archives of OpenSSL need: Debian 13's libcrypto.a calls zstd, Debian 12's does not.
find_library(jobscope_archive_zstd NAMES libzstd.a)
set(jobscope_openssl_needs "")
if(jobscope_archive_zstd)
  set(jobscope_openssl_needs ${jobscope_archive_zstd})
endif()
