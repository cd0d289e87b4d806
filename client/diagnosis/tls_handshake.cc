// SPDX-License-Identifier: Apache-2.0
#include "client/diagnosis/tls_handshake.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "client/diagnosis/certificate_complaint.h"
#include "client/diagnosis/worker_socket.h"

namespace jobscope {
namespace {

// Frees an object of OpenSSL.
template <auto kFree>
struct Free {
  template <typename Object>
  void operator()(Object* object) const {
    kFree(object);
  }
};

using Context = std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>>;
using Connection = std::unique_ptr<SSL, Free<SSL_free>>;
using Memory = std::unique_ptr<BIO, Free<BIO_free>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;

constexpr size_t kMaxAccepted = 8;
// Types of TLS records: change_cipher_spec, alert, handshake, application_data.
constexpr unsigned char kFirstRecordType = 20;
constexpr unsigned char kLastRecordType = 23;

class Handshake {
 public:
  Handshake(const Endpoint& endpoint, const ClientCredentials* credentials)
      : endpoint_(endpoint), credentials_(credentials) {}

  bool Prepare();
  HandshakeFindings Run(int fd, absl::Time deadline);

 private:
  static int OnCertificate(int good, X509_STORE_CTX* store);
  static int OnWanted(SSL* connection, void* self);
  static void OnEvent(const SSL* connection, int where, int value);
  static Handshake* Of(const SSL* connection) {
    return static_cast<Handshake*>(SSL_get_ex_data(connection, 0));
  }
  void Trust(const std::string& pem);
  void Present(const CertificatePair& pair);
  std::string NameToCheck() const;
  bool Send(int fd, absl::Time deadline);
  bool Receive(int fd, absl::Time deadline);

  const Endpoint& endpoint_;
  const ClientCredentials* const credentials_;
  Context context_;
  Connection connection_;
  BIO* from_worker_ = nullptr;  // owned by the connection
  BIO* to_worker_ = nullptr;    // likewise
  HandshakeFindings findings_;
};

std::string Handshake::NameToCheck() const {
  if (credentials_ != nullptr && !credentials_->server_name().empty()) {
    return credentials_->server_name();
  }
  return endpoint_.port == 0 ? "localhost" : endpoint_.host;  // as gRPC does
}

// Continues despite any error, because the worker may also reject our certificate.
int Handshake::OnCertificate(int good, X509_STORE_CTX* store) {
  if (good == 1) return 1;
  const auto* const connection = static_cast<const SSL*>(
      X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  const X509* const certificate = X509_STORE_CTX_get_current_cert(store);
  Handshake* const self = Of(connection);
  if (certificate == nullptr || self->credentials_ == nullptr || !self->credentials_->tls()) {
    return 1;
  }
  std::vector<std::string>& complaints = self->findings_.complaints;
  std::string complaint = CertificateComplaint(
      X509_STORE_CTX_get_error(store), certificate, X509_STORE_CTX_get_error_depth(store),
      self->NameToCheck(), self->credentials_->authorities_name());
  // OpenSSL reports an unknown CA three times, in three ways.
  if (std::find(complaints.begin(), complaints.end(), complaint) == complaints.end()) {
    complaints.push_back(std::move(complaint));
  }
  return 1;
}

int Handshake::OnWanted(SSL* connection, void* self) {
  HandshakeFindings& findings = static_cast<Handshake*>(self)->findings_;
  findings.wants_certificate = true;
  findings.accepted.clear();
  const STACK_OF(X509_NAME)* const names = SSL_get0_peer_CA_list(connection);
  for (int i = 0; i < sk_X509_NAME_num(names) && findings.accepted.size() < kMaxAccepted; ++i) {
    findings.accepted.push_back(QuotedName(sk_X509_NAME_value(names, i)));
  }
  return 1;
}

void Handshake::OnEvent(const SSL* connection, int where, int value) {
  if ((where & SSL_CB_READ_ALERT) != SSL_CB_READ_ALERT) return;
  if ((value >> 8) == SSL3_AL_FATAL) Of(connection)->findings_.alert = value & 0xff;
}

void Handshake::Trust(const std::string& pem) {
  const Memory bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  X509_STORE* const store = SSL_CTX_get_cert_store(context_.get());
  while (true) {
    const Certificate certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (certificate == nullptr) break;
    X509_STORE_add_cert(store, certificate.get());
  }
}

void Handshake::Present(const CertificatePair& pair) {
  const Memory chain(
      BIO_new_mem_buf(pair.certificate_pem.data(), static_cast<int>(pair.certificate_pem.size())));
  const Memory key_bio(BIO_new_mem_buf(pair.key_pem.data(), static_cast<int>(pair.key_pem.size())));
  const Certificate leaf(PEM_read_bio_X509(chain.get(), nullptr, nullptr, nullptr));
  const PrivateKey key(PEM_read_bio_PrivateKey(key_bio.get(), nullptr, nullptr, nullptr));
  if (leaf == nullptr) return;
  findings_.presented_issuer = QuotedName(X509_get_issuer_name(leaf.get()));
  if (key == nullptr) return;
  SSL_CTX_use_certificate(context_.get(), leaf.get());
  while (X509* const issuer = PEM_read_bio_X509(chain.get(), nullptr, nullptr, nullptr)) {
    SSL_CTX_add0_chain_cert(context_.get(), issuer);
  }
  SSL_CTX_use_PrivateKey(context_.get(), key.get());
}

bool Handshake::Prepare() {
  context_.reset(SSL_CTX_new(TLS_client_method()));
  if (context_ == nullptr) return false;
  SSL_CTX_set_min_proto_version(context_.get(), TLS1_2_VERSION);
  SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, &Handshake::OnCertificate);
  SSL_CTX_set_cert_cb(context_.get(), &Handshake::OnWanted, this);
  SSL_CTX_set_info_callback(context_.get(), &Handshake::OnEvent);
  if (credentials_ != nullptr) {
    Trust(credentials_->authorities_pem());
    if (credentials_->has_certificate()) Present(credentials_->pair());
  }
  connection_.reset(SSL_new(context_.get()));
  if (connection_ == nullptr) return false;
  SSL* const connection = connection_.get();
  SSL_set_ex_data(connection, 0, this);
  constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_set_alpn_protos(connection, kHttp2, sizeof(kHttp2));
  const std::string name = NameToCheck();
  X509_VERIFY_PARAM* const parameters = SSL_get0_param(connection);
  if (X509_VERIFY_PARAM_set1_ip_asc(parameters, name.c_str()) != 1) {
    X509_VERIFY_PARAM_set1_host(parameters, name.data(), name.size());
    SSL_set_tlsext_host_name(connection, name.c_str());
  }
  from_worker_ = BIO_new(BIO_s_mem());
  to_worker_ = BIO_new(BIO_s_mem());
  SSL_set_bio(connection, from_worker_, to_worker_);
  SSL_set_connect_state(connection);
  return true;
}

// Does not use OpenSSL's sockets: a write to one that the worker has closed would raise SIGPIPE.
bool Handshake::Send(int fd, absl::Time deadline) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(to_worker_, &data);
  long sent = 0;
  while (sent < size) {
    const ssize_t count = send(fd, data + sent, static_cast<size_t>(size - sent), MSG_NOSIGNAL);
    if (count > 0) sent += count;
    if (count > 0 || (count < 0 && errno == EINTR)) continue;
    if (errno != EAGAIN || !AwaitSocket(fd, POLLOUT, deadline)) return false;
  }
  BIO_reset(to_worker_);
  return true;
}

bool Handshake::Receive(int fd, absl::Time deadline) {
  unsigned char buffer[16384];
  while (true) {
    if (!AwaitSocket(fd, POLLIN, deadline)) return false;
    const ssize_t count = recv(fd, buffer, sizeof(buffer), 0);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) {
      findings_.closed = true;
      return false;
    }
    if (!findings_.spoke) {
      findings_.spoke = true;
      findings_.spoke_tls = buffer[0] >= kFirstRecordType && buffer[0] <= kLastRecordType;
    }
    BIO_write(from_worker_, buffer, static_cast<int>(count));
    return true;
  }
}

HandshakeFindings Handshake::Run(int fd, absl::Time deadline) {
  ERR_clear_error();
  while (true) {
    char data[1];
    // Once the handshake is complete, this reads what the worker sends next.
    const int result = findings_.complete ? SSL_read(connection_.get(), data, 1)
                                          : SSL_do_handshake(connection_.get());
    const int error = SSL_get_error(connection_.get(), result);
    const bool sent = Send(fd, deadline);
    if (result == 1 && findings_.complete) {
      findings_.went_on = true;
      break;
    }
    if (result == 1) {
      findings_.complete = true;
      const unsigned char* protocol = nullptr;
      unsigned int size = 0;
      SSL_get0_alpn_selected(connection_.get(), &protocol, &size);
      findings_.spoke_http2 = size > 0;
      continue;
    }
    if (error != SSL_ERROR_WANT_READ) break;
    // Data that a worker sends before it closes can be read even if nothing can be sent any more.
    if (!Receive(fd, deadline) || (!sent && findings_.closed)) break;
  }
  ERR_clear_error();
  return std::move(findings_);
}

}  // namespace

std::optional<HandshakeFindings> TryHandshake(const Endpoint& endpoint,
                                              const ClientCredentials* credentials,
                                              absl::Time deadline) {
  Handshake handshake(endpoint, credentials);
  if (!handshake.Prepare()) return std::nullopt;
  const int fd = ConnectTo(endpoint, deadline);
  if (fd < 0) return std::nullopt;
  const absl::Cleanup close_fd = [fd] { close(fd); };
  return handshake.Run(fd, deadline);
}

}  // namespace jobscope
