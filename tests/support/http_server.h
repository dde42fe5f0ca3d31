#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tessera::test {

/// What a test's server answers to a path.
struct HttpPage {
  std::string body;
  int status = 200;
  std::string location = {};  ///< of a redirection
  bool honours_range = true;
  std::size_t breaks_after = 0;  ///< bytes after which the connection is cut, once; 0: never
  int busy = 0;                  ///< answers of 503 that come first
};

/// A server for one connection after the other on a port of its own at 127.0.0.1, until it is destroyed. Only what a test of downloads needs.
class HttpServer {
 public:
  HttpServer() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    ::listen(listener_, 16);
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this] { serve(); });
  }
  ~HttpServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  void set(const std::string& path, HttpPage page) {
    const std::lock_guard lock(mutex_);
    pages_[path] = std::move(page);
  }
  /// The requests so far, head and all.
  std::vector<std::string> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void serve() {
    for (int connection = ::accept(listener_, nullptr, nullptr); connection >= 0; connection = ::accept(listener_, nullptr, nullptr)) {
      answer(connection);
      ::close(connection);
    }
  }

  void answer(int connection) {
    std::string request;
    char block[4096];
    while (request.find("\r\n\r\n") == std::string::npos) {
      const ssize_t got = ::recv(connection, block, sizeof block, 0);
      if (got <= 0) return;
      request.append(block, static_cast<std::size_t>(got));
    }
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
    const std::string path = request.substr(4, request.find(' ', 4) - 4);
    const auto found = pages_.find(path);
    if (found == pages_.end()) return send_all(connection, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    HttpPage& page = found->second;
    if (page.busy > 0) {
      --page.busy;
      return send_all(connection, "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbusy");
    }
    std::size_t begin = 0;
    std::string head = "HTTP/1.1 " + std::to_string(page.status) + " X\r\n";
    const auto range = request.find("Range: bytes=");
    if (range != std::string::npos && page.honours_range && page.status == 200) {
      begin = std::stoul(request.substr(range + 13));
      if (begin >= page.body.size()) return send_all(connection, "HTTP/1.1 416 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
      head = "HTTP/1.1 206 X\r\nContent-Range: bytes " + std::to_string(begin) + "-" + std::to_string(page.body.size() - 1) + "/" +
             std::to_string(page.body.size()) + "\r\n";
    }
    if (!page.location.empty()) head += "Location: " + page.location + "\r\n";
    const std::string body = page.body.substr(begin);
    const std::size_t sent = page.breaks_after > 0 ? std::min(page.breaks_after, body.size()) : body.size();
    page.breaks_after = 0;
    send_all(connection, head + "Content-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" + body.substr(0, sent));
  }

  static void send_all(int connection, const std::string& text) {
    for (std::size_t sent = 0; sent < text.size();) {
      const ssize_t now = ::send(connection, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (now <= 0) return;
      sent += static_cast<std::size_t>(now);
    }
  }

  int listener_;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::map<std::string, HttpPage> pages_;
  std::vector<std::string> requests_;
  std::jthread thread_;
};

}  // namespace tessera::test
