"""The closed queueing network and the round-robin scheduler of this directory's Rust programs, for SimPy.

models.py network <services> | roundrobin <events>; prints `key value` lines. What the models are and what counts as an
event is said in src/network.rs and src/roundrobin.rs.
"""

import random
import sys
import time

import simpy

STATIONS, CUSTOMERS, SERVICE = 10, 100, 10_000.0
CPUS, VCPUS, COMPUTE, SLEEP, SLICE, SLEEPS = 16, 64, 20_000.0, 50_000.0, 100_000, 10


def exponential(mean):
    return max(1, int(random.expovariate(1 / mean)))


def network(services):
    """Customers are processes, stations resources: SimPy's own way."""
    env = simpy.Environment()
    stations = [simpy.Resource(env) for _ in range(STATIONS)]
    served = 0
    enough = env.event()

    def customer(number):
        nonlocal served
        station = number % STATIONS
        while True:
            with stations[station].request() as turn:
                yield turn
                yield env.timeout(exponential(SERVICE))
            served += 1
            if served == services:
                enough.succeed()
            station = int(random.random() * STATIONS)

    for number in range(CUSTOMERS):
        env.process(customer(number))
    env.run(until=enough)
    return served, served / (env.now / 1e9) / STATIONS, served / (env.now / 1e9)


def roundrobin(events):
    """CPUs are processes that take vCPUs from a store; the end of a slice interrupts the wait for a computation."""
    env = simpy.Environment()
    ready = simpy.Store(env)
    left = [0] * VCPUS
    turns = [0] * CPUS
    processes = []
    happened = computations = 0
    enough = env.event()

    def count():
        nonlocal happened
        happened += 1
        if happened == events:
            enough.succeed()

    def awake(timeout):
        count()
        ready.put(timeout.value)

    def slice_over(timeout):
        cpu, turn = timeout.value
        if turns[cpu] == turn:
            count()
            processes[cpu].interrupt()

    def run(cpu):
        nonlocal computations
        while True:
            vcpu = yield ready.get()
            turns[cpu] += 1
            env.timeout(SLICE, (cpu, turns[cpu])).callbacks.append(slice_over)
            while True:
                work = left[vcpu] or exponential(COMPUTE)
                left[vcpu] = 0
                until = env.now + work
                try:
                    yield env.timeout(work)
                except simpy.Interrupt:
                    left[vcpu] = max(1, until - env.now)
                    ready.put(vcpu)
                    break
                count()
                computations += 1
                if int(random.random() * SLEEPS) == 0:
                    turns[cpu] += 1
                    env.timeout(exponential(SLEEP), vcpu).callbacks.append(awake)
                    break

    for vcpu in range(VCPUS):
        ready.put(vcpu)
    processes.extend(env.process(run(cpu)) for cpu in range(CPUS))
    env.run(until=enough)
    return happened, computations / (env.now / 1e9), happened / (env.now / 1e9)


random.seed(1)
start = time.perf_counter()
model = {"network": network, "roundrobin": roundrobin}[sys.argv[1]]
total, throughput, pace = model(int(sys.argv[2]))
print("seconds", time.perf_counter() - start)
print("events", total)
print("throughput", throughput)
print("pace", pace)
