// The launcher's side of launcher_witness.hpp: which process writes under which number, and which of them have ended, as the kernel says.
//
// One thread, never blocks. Its memory ends with the last process that has it, however the launcher ends.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bootstrap/launcher_witness.hpp"

namespace coppice::bootstrap {

class WitnessKeeper {
  public:
    // For so many numbers. Null, with errno: there is no memory for it, and no witness then.
    static std::unique_ptr<WitnessKeeper> create(std::uint32_t numbers);
    ~WitnessKeeper();
    WitnessKeeper(const WitnessKeeper&) = delete;
    WitnessKeeper& operator=(const WitnessKeeper&) = delete;

    // What goes into COPPICE_WITNESS: a file of this process's, as long as that lives.
    const std::string& path() const { return path_; }
    // A descriptor for each that lives: of so many at once. The others have no witness.
    void watch_at_most(std::size_t processes) { most_ = processes; }
    // The process, which lives or has just ended, takes part under that number from now on. To be called before it is answered.
    void arrived(std::uint32_t number, pid_t process);
    // Marks what those have written that have ended since the last look. To be called every now and then: nothing wakes the launcher for it.
    void look();

  private:
    struct Watched {
        std::uint32_t number = 0;
        std::uint32_t claim = 0;
        pid_t process = -1;
        int descriptor = -1;  // a pidfd
    };

    WitnessKeeper(witness::Memory memory, int file, int poll);
    void mark(const Watched& one);

    witness::Memory memory_;
    int file_;
    int poll_;
    std::string path_;
    std::size_t most_ = SIZE_MAX;
    std::vector<Watched> watched_;
    std::vector<std::uint32_t> claims_;  // made, by number
};

}  // namespace coppice::bootstrap
