// SPDX-License-Identifier: Apache-2.0
#include "common/net/address_list.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/net/port_files.h"
#include "common/text/foreign_text.h"

namespace jobscope {
namespace {

// Keeps the note on files of a port directory readable.
constexpr size_t kMaxNamedFiles = 8;

// Splits at commas outside of brackets. Brackets do not nest; an unclosed one takes the rest.
std::vector<absl::string_view> SplitEntries(absl::string_view list) {
  std::vector<absl::string_view> entries;
  bool inside = false;
  size_t begin = 0;
  for (size_t i = 0; i <= list.size(); ++i) {
    if (i == list.size() || (list[i] == ',' && !inside)) {
      entries.push_back(absl::StripAsciiWhitespace(list.substr(begin, i - begin)));
      begin = i + 1;
    } else if (list[i] == '[') {
      inside = true;
    } else if (list[i] == ']') {
      inside = false;
    }
  }
  return entries;
}

absl::StatusOr<std::string> ReadSmallFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read addresses from ", path, ": ", std::strerror(errno)));
  }
  std::string text(kMaxAddressListBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) {
    return absl::InvalidArgumentError(absl::StrCat("cannot read addresses from ", path));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMaxAddressListBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, " has more than ", kMaxAddressListBytes,
                                                   " bytes; is it the right file?"));
  }
  return text;
}

// Says which files of a port directory added no worker.
std::string MergedNote(const std::string& directory, const std::vector<std::string>& files) {
  std::string names;
  for (size_t i = 0; i < std::min(files.size(), kMaxNamedFiles); ++i) {
    absl::StrAppend(&names, i == 0 ? "" : ", ", Printable(files[i]));
  }
  if (files.size() > kMaxNamedFiles) {
    absl::StrAppend(&names, " and ", files.size() - kMaxNamedFiles, " more");
  }
  return absl::StrCat(
      "files of ", directory, " hold addresses that other files there hold: ", names,
      ". Each address is taken as one worker. Such a file is a killed worker's, or, for a loopback "
      "address or a Unix socket, that of a worker of another host: run capture there");
}

// Collects endpoints and rejects duplicates.
class EndpointList {
 public:
  // Appends to `notes`, unless it is null.
  EndpointList(const Resolver& resolver, std::vector<std::string>* notes)
      : resolver_(resolver), notes_(notes) {}

  // `where` gives the position of the entry ("", " (hosts.txt line 3)").
  absl::Status AddList(absl::string_view list, const std::string& where, bool files_allowed) {
    for (const absl::string_view entry : SplitEntries(list)) {
      if (entry.empty()) {
        return absl::InvalidArgumentError(
            absl::StrCat("an empty address between commas", where, "; write host:port"));
      }
      const absl::Status status = entry[0] == '@' ? AddFileOrDirectory(entry, where, files_allowed)
                                                  : AddEntry(entry, where);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  std::vector<Endpoint> Take() { return std::move(endpoints_); }

 private:
  absl::Status AddEntry(absl::string_view entry, const std::string& where) {
    const absl::StatusOr<std::vector<std::string>> addresses = ExpandHostList(entry);
    if (!addresses.ok()) return Located(addresses.status(), where);
    for (const std::string& address : *addresses) {
      absl::Status status =
          absl::StartsWith(address, "dns:") ? AddName(address, where) : AddAddress(address, where);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status AddAddress(absl::string_view address, const std::string& where) {
    absl::StatusOr<Endpoint> endpoint = ParseEndpoint(address);
    if (!endpoint.ok()) return Located(endpoint.status(), where);
    return Add(*std::move(endpoint), where);
  }

  absl::Status AddName(absl::string_view address, const std::string& where) {
    absl::string_view rest = address;
    if (!absl::ConsumePrefix(&rest, "dns:///")) {
      return Located(BadAddress(address, "write dns:///name:port"), where);
    }
    const absl::StatusOr<Endpoint> name = ParseEndpoint(rest);
    if (!name.ok()) return Located(name.status(), where);
    if (name->port == 0) return Located(BadAddress(address, "write dns:///name:port"), where);
    const absl::StatusOr<std::vector<std::string>> hosts = resolver_(name->host);
    if (!hosts.ok()) return Located(hosts.status(), where);
    if (hosts->empty()) {
      return absl::UnavailableError(absl::StrCat("no address found for the name ", name->host,
                                                 where, "; is the job running?"));
    }
    for (const std::string& host : *hosts) {
      const bool v6 = absl::StrContains(host, ':');
      const absl::Status status =
          AddAddress(absl::StrCat(v6 ? "[" : "", host, v6 ? "]:" : ":", name->port), where);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status AddFileOrDirectory(absl::string_view entry, const std::string& where,
                                  bool files_allowed) {
    if (!files_allowed) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", Printable(entry), "'", where, ": a list in a file cannot name another file"));
    }
    const std::string path(entry.substr(1));
    if (path.empty()) {
      return absl::InvalidArgumentError("'@' without a file or directory after it");
    }
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) return AddDirectory(path);
    return AddLines(path, ReadSmallFile(path));
  }

  absl::Status AddLines(const std::string& path, const absl::StatusOr<std::string>& text) {
    if (!text.ok()) return text.status();
    size_t line_number = 0;
    bool has_address = false;
    for (absl::string_view line : absl::StrSplit(*text, '\n')) {
      ++line_number;
      line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
      if (line.empty()) continue;
      has_address = true;
      const absl::Status status = AddList(
          line, absl::StrCat(" (", path, " line ", line_number, ")"), /*files_allowed=*/false);
      if (!status.ok()) return status;
    }
    if (!has_address) {
      return absl::InvalidArgumentError(absl::StrCat(path, " holds no address"));
    }
    return absl::OkStatus();
  }

  absl::Status AddDirectory(const std::string& path) {
    const absl::StatusOr<std::vector<std::string>> files = ListPortFiles(path);
    if (!files.ok()) return files.status();
    if (files->size() > kMaxEndpoints) return TooMany();
    absl::Status status;
    size_t read = 0;
    std::vector<std::string> merged;
    directory_begin_ = endpoints_.size();
    for (const std::string& file : *files) {
      const absl::StatusOr<std::string> text = ReadPortFile(file, kMaxAddressListBytes);
      if (absl::IsNotFound(text.status())) continue;  // its worker has ended meanwhile
      ++read;
      const size_t merged_before = merged_;
      file_begin_ = endpoints_.size();
      status = AddLines(file, text);
      if (!status.ok()) break;
      if (merged_ > merged_before) merged.push_back(std::filesystem::path(file).filename());
    }
    directory_begin_.reset();
    if (read == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the port directory ", path,
          " holds no *.addr file; do the workers run with JOBSCOPE_PORT_DIR set to it?"));
    }
    if (notes_ != nullptr && !merged.empty()) notes_->push_back(MergedNote(path, merged));
    return status;
  }

  absl::Status Add(Endpoint endpoint, const std::string& where) {
    const auto [seen, is_new] = given_by_key_.try_emplace(endpoint.key, endpoints_.size(), where);
    if (!is_new) {
      const auto& [index, first_where] = seen->second;
      // The file of a killed worker, which another one replaced on the same port.
      if (directory_begin_.has_value() && index >= *directory_begin_) {
        if (index < file_begin_) ++merged_;
        return absl::OkStatus();
      }
      return absl::InvalidArgumentError(absl::StrCat("address ", endpoint.address, where,
                                                     " was already given", first_where,
                                                     "; name each worker once"));
    }
    if (endpoints_.size() >= kMaxEndpoints) return TooMany();
    endpoints_.push_back(std::move(endpoint));
    return absl::OkStatus();
  }

  static absl::Status TooMany() {
    return absl::InvalidArgumentError(absl::StrCat("more than ", kMaxEndpoints, " addresses"));
  }

  static absl::Status Located(const absl::Status& status, const std::string& where) {
    return absl::Status(status.code(), absl::StrCat(status.message(), where));
  }

  const Resolver& resolver_;
  std::vector<std::string>* const notes_;
  std::vector<Endpoint> endpoints_;
  std::unordered_map<std::string, std::pair<size_t, std::string>> given_by_key_;  // index, where
  std::optional<size_t> directory_begin_;  // first index of the port directory that is being added
  size_t file_begin_ = 0;                  // likewise, of its file that is being added
  size_t merged_ = 0;                      // addresses that another file of their directory holds
};

}  // namespace

absl::StatusOr<std::vector<Endpoint>> ParseAddressList(absl::string_view list,
                                                       const Resolver& resolver,
                                                       std::vector<std::string>* notes) {
  if (absl::StripAsciiWhitespace(list).empty()) {
    return absl::InvalidArgumentError("no address given; write host:port");
  }
  if (list.size() > kMaxAddressListBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the address list has more than ", kMaxAddressListBytes, " bytes; use @file"));
  }
  EndpointList endpoints(resolver, notes);
  const absl::Status status = endpoints.AddList(list, /*where=*/"", /*files_allowed=*/true);
  if (!status.ok()) return status;
  return endpoints.Take();
}

}  // namespace jobscope
