// coppice.hpp keeps what it says about its types: move-only, nothing thrown by try_…, statuses that must be
// looked at.
#include <array>
#include <coppice/coppice.hpp>
#include <cstddef>
#include <type_traits>

namespace {

template <class T>
constexpr bool kMoveOnly = std::is_nothrow_move_constructible_v<T>&& std::is_nothrow_move_assignable_v<T>&&
                               std::is_nothrow_default_constructible_v<T> &&
                           !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T>;
static_assert(kMoveOnly<coppice::Context> && kMoveOnly<coppice::Group> && kMoveOnly<coppice::Request> &&
              kMoveOnly<coppice::View> && kMoveOnly<coppice::Registration> && kMoveOnly<coppice::Shrinking>);
static_assert(std::is_base_of_v<std::exception, coppice::Error>);
static_assert(std::is_nothrow_copy_constructible_v<coppice::Error>);

using Bytes = std::span<std::byte>;
static_assert(noexcept(std::declval<coppice::Group&>().try_broadcast(Bytes(), 0, std::declval<std::size_t&>())));
static_assert(noexcept(std::declval<coppice::Group&>().try_broadcast_view(Bytes(), 0, std::declval<coppice::View&>())));
static_assert(noexcept(std::declval<coppice::Group&>().try_shrink_nb(std::declval<coppice::Shrinking&>())));
static_assert(noexcept(std::declval<coppice::Request&>().try_wait(coppice::kNoTimeout)));

}  // namespace

int main() {
    using namespace std::chrono_literals;
    auto context = coppice::Context::create({.thread_mode = coppice::ThreadMode::kMultiple});
    auto group = coppice::Group::create(context, {.correction = "checked", .on_failure = [](std::uint32_t) {}});
    std::array<std::byte, 8> buffer{};
    const auto registration = group.register_memory(buffer);
    const auto payload = group.broadcast(buffer, 0, 2s);
    const auto memory = group.allocate_memory(64);
    auto request = group.broadcast_nb(buffer, 0);
    while (!request.test())
        context.progress();
    auto view_request = group.broadcast_view_nb(payload, 0);
    view_request.wait(500us);
    const auto view = view_request.take_view();
    const auto other = group.broadcast_view(view.bytes(), 0);
    auto survivors = group.shrink_nb().wait(2s);
    group.leave();
    group = std::move(survivors);
    return static_cast<int>(other.bytes().size() + memory.bytes().size() + group.failed().size() + request.received() +
                            group.rank());
}
