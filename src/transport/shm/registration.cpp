#include <algorithm>
#include <array>

#include "transport/registry.hpp"
#include "transport/shm/shm_transport.hpp"

namespace coppice::transport::shm {
namespace {

constexpr std::array kSettings{
    SettingInfo{"COPPICE_PROCESS_LOOK", "20ms",
                "how often one of the host's processes is looked at, while polling: a second opinion; 0: never"},
};

class ShmMaker final : public Maker {
  public:
    explicit ShmMaker(std::uint64_t second_look_ns) : second_look_ns_(second_look_ns) {}

    Result<Made> make(const GroupFacts& group) const override {
        auto made = ShmTransport::create({.self = group.self,
                                          .group_size = group.group_size,
                                          .window = group.window,
                                          .host = group.host,
                                          .max_local = std::max(group.local_ranks, 2U),
                                          .second_look_ns = second_look_ns_,
                                          .regions = group.regions});
        if (!made) return tl::unexpected(std::move(made.error()));
        HostMemory* const host_memory = made->get();
        return Made{std::move(*made), host_memory};
    }

  private:
    std::uint64_t second_look_ns_;
};

Result<std::shared_ptr<const Maker>> read(const SettingTexts& texts) {
    const auto look = texts.duration_ns("COPPICE_PROCESS_LOOK", "0, or a time such as 20ms");
    if (!look) return tl::unexpected(look.error());
    return std::make_shared<const ShmMaker>(*look);
}

}  // namespace

extern const Registration kRegistration;
constinit const Registration kRegistration{.name = "shm",
                                           .within_host = true,
                                           .by_default_for = "within hosts",
                                           .probe = [] { return true; },
                                           .settings = kSettings,
                                           .read = read};

}  // namespace coppice::transport::shm
