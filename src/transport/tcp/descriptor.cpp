#include "transport/tcp/descriptor.hpp"

#include <pthread.h>
#include <unistd.h>

#include <mutex>
#include <vector>

namespace coppice::transport::tcp {
namespace {

struct Table {
    std::mutex mutex;
    std::vector<bool> ours;  // by number
    std::uint64_t forks = 0;
};

// Never destroyed: handlers of fork may run as late as static destructors do.
Table& table() {
    static Table* const the_table = [] {
        auto* const made = new Table;
        pthread_atfork([] { table().mutex.lock(); }, [] { table().mutex.unlock(); },
                       [] {
                           Table& copy = table();
                           for (std::size_t number = 0; number < copy.ours.size(); ++number)
                               if (copy.ours[number]) ::close(static_cast<int>(number));
                           copy.ours.assign(copy.ours.size(), false);
                           ++copy.forks;
                           copy.mutex.unlock();
                       });
        return made;
    }();
    return *the_table;
}

}  // namespace

std::unique_lock<std::mutex> Descriptor::no_fork() {
    return std::unique_lock(table().mutex);
}

Descriptor::Descriptor(int number) {
    const auto lock = no_fork();
    take(number);
}

void Descriptor::take(int number) {
    if (number < 0) return;
    Table& all = table();
    const auto place = static_cast<std::size_t>(number);
    try {
        if (all.ours.size() <= place) all.ours.resize(place + 64);
    } catch (...) {
        ::close(number);  // nobody has it yet
        throw;
    }
    all.ours[place] = true;
    forks_ = all.forks;
    number_ = number;
}

void Descriptor::close() {
    if (number_ < 0) return;
    Table& all = table();
    const std::scoped_lock lock(all.mutex);
    if (forks_ == all.forks) {  // else it is closed already, and the number may be another file's
        ::close(number_);
        all.ours[static_cast<std::size_t>(number_)] = false;
    }
    number_ = -1;
}

std::uint64_t forks_so_far() {
    Table& all = table();
    const std::scoped_lock lock(all.mutex);
    return all.forks;
}

}  // namespace coppice::transport::tcp
