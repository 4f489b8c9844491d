// An exchange as a program with a common directory and nothing else might have it: an allgather for
// coppice_group_create that knows of deaths and tells the same to all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace chaos {

class FileExchange {
  public:
    // `name` is the same at all ranks of the exchange and no other's. `members` are numbers of processes, of which
    // `self` is this one's place. The directory has a file "pid-MEMBER" of each, and "output", what the launcher says.
    FileExchange(std::string directory, std::string name, std::vector<std::uint32_t> members, std::uint32_t self,
                 double patience)
        : directory_(std::move(directory)),
          name_(std::move(name)),
          members_(std::move(members)),
          self_(self),
          patience_(patience) {}

    // A coppice_exchange_fn; `exchange` is a FileExchange.
    static int exchange(void* exchange, const void* mine, std::size_t bytes, void* all);

    // Writes this process's file, so that the others can see whether it lives.
    static void announce(const std::string& directory, std::uint32_t member);

  private:
    int run(const void* mine, std::size_t bytes, void* all);
    bool is_dead(std::uint32_t member) const;
    std::string path(const std::string& what) const;

    std::string directory_;
    std::string name_;
    std::vector<std::uint32_t> members_;
    std::uint32_t self_;
    double patience_;
    std::uint32_t round_ = 0;
};

}  // namespace chaos
