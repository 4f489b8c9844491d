// A stack of its own for one thread of a simulated rank. The scheduler resumes it; it runs until it suspends itself.
//
// A rank that is killed is never resumed: what is on its stack is dropped, as the kernel drops a process's. Its memory goes the
// same way (arena.hpp), so no destructor has to run.
#pragma once

#include <csetjmp>
#include <cstddef>

namespace coppice::world {

class Fibre {
  public:
    Fibre();
    ~Fibre();
    Fibre(const Fibre&) = delete;
    Fibre& operator=(const Fibre&) = delete;

    // What the next resume() runs, from its start. Whatever ran here before is dropped.
    void start(void (*body)(void*), void* argument);
    // Runs it until it suspends itself or ends. From outside of all fibres.
    void resume();
    bool over() const { return over_; }

    // From within: back to the one that has resumed it.
    static void suspend();
    static Fibre* current() { return current_; }

  private:
    static void enter();

    static Fibre* current_;
    std::byte* stack_;
    void (*body_)(void*) = nullptr;
    void* argument_ = nullptr;
    bool begun_ = false;
    bool over_ = true;
    std::jmp_buf outside_;
    std::jmp_buf inside_;
};

}  // namespace coppice::world
