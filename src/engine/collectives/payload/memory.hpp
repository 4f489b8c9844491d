// The library's own memory for one large payload: mapped, so that it is given back as soon as it is not needed, unless it is so small that
// this costs more than it brings.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace coppice::engine {

class PayloadMemory {
  public:
    PayloadMemory() = default;
    // Empty when there is none to be had.
    static PayloadMemory allocate(std::size_t bytes);
    PayloadMemory(PayloadMemory&& other) noexcept { swap(other); }
    PayloadMemory& operator=(PayloadMemory&& other) noexcept {
        swap(other);
        return *this;
    }
    ~PayloadMemory();

    explicit operator bool() const { return data_ != nullptr; }
    std::byte* data() const { return data_; }
    std::size_t size() const { return size_; }

  private:
    void swap(PayloadMemory& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        std::swap(is_mapped_, other.is_mapped_);
    }

    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
    bool is_mapped_ = false;
};

}  // namespace coppice::engine
