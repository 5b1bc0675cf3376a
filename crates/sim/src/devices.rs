//! Devices: messages, disks, device models, and the load from outside.

use crate::entities::{Effect, Message, MessageSender, NONE, QueuedEvent, StrandWait, TaskKind};
use crate::exits::SimExitReason;
use crate::random::sample;
use crate::world::SimWorld;
use crate::{Observer, SimError};
use exitscope_scenario::{Arrival, Doorbell};

impl<O: Observer> SimWorld<'_, O> {
    pub(crate) fn new_message(&mut self, channel: u32, from: MessageSender, to: MessageSender) -> u32 {
        let message = Message { channel, from, to, taker: NONE };
        match self.free_messages.pop() {
            Some(at) => {
                self.messages[at as usize] = message;
                at
            }
            None => {
                self.messages.push(message);
                self.messages.len() as u32 - 1
            }
        }
    }

    /// The message that a strand received last is done with.
    pub(crate) fn drop_message(&mut self, strand: u32) {
        let message = std::mem::replace(&mut self.strands[strand as usize].message, NONE);
        if message != NONE {
            self.free_messages.push(message);
        }
    }

    /// The message that a strand received last becomes its answer.
    pub(crate) fn answer(&mut self, strand: u32) -> Option<(u32, u32)> {
        let at = std::mem::replace(&mut self.strands[strand as usize].message, NONE);
        let message = self.messages.get_mut(at as usize)?;
        (message.to, message.from) = (message.from, MessageSender::Strand(strand));
        message.taker = NONE;
        if message.to == MessageSender::Nobody {
            self.free_messages.push(at);
            return None;
        }
        Some((message.channel, at))
    }

    /// A strand sends: by writing memory, or by an exit. Whether it exits.
    pub(crate) fn ring(&mut self, strand: u32, channel: u32, message: u32) -> bool {
        if self.s.channels[channel as usize].doorbell == Doorbell::Memory {
            self.send(message);
            return false;
        }
        self.exit(strand, SimExitReason::Doorbell { channel, message });
        true
    }

    /// The message leaves the sender: through the device's thread, if there is one.
    pub(crate) fn send(&mut self, message: u32) {
        let Message { channel, from, .. } = self.messages[message as usize];
        let task = match from {
            MessageSender::Strand(strand) => self.channel_task(strand, channel),
            MessageSender::Client { .. } | MessageSender::Nobody => NONE,
        };
        self.by_device(task, self.s.channels[channel as usize].thread.0, Effect::Depart { message });
    }

    fn channel_task(&self, strand: u32, channel: u32) -> u32 {
        let vm = self.strands[strand as usize].vm;
        self.vms.get(vm as usize).map_or(NONE, |vm| vm.channel_tasks[channel as usize])
    }

    /// Lets a device's task do something, or if there is none has it done at once.
    fn by_device(&mut self, task: u32, time: u64, effect: Effect) {
        let Some(state) = self.tasks.get_mut(task as usize) else {
            self.take_effect(NONE, effect);
            return;
        };
        if let TaskKind::Device { jobs, .. } = &mut state.kind {
            jobs.push_back((time, effect));
        }
        self.wake(task);
    }

    /// The message is on its way.
    pub(crate) fn depart(&mut self, message: u32) {
        let channel = self.messages[message as usize].channel;
        let latency = sample(&mut self.outside, self.s.channels[channel as usize].latency);
        self.queue.plan(self.now.saturating_add(latency), QueuedEvent::Arrive { message });
    }

    /// The message reaches the other side: a client, or the device of the VM that takes it.
    pub(crate) fn arrive(&mut self, message: u32) {
        let Message { channel, to, .. } = self.messages[message as usize];
        let taker = match to {
            MessageSender::Client { load, client } => {
                self.free_messages.push(message);
                return self.client_is_answered(load, client);
            }
            MessageSender::Strand(strand) => strand,
            MessageSender::Nobody => match self.channels[channel as usize].waiting.pop_front() {
                Some(strand) => strand,
                None => return self.arrive_busy(channel, message),
            },
        };
        self.messages[message as usize].taker = taker;
        let task = self.channel_task(taker, channel);
        self.by_device(task, self.s.channels[channel as usize].thread.0, Effect::Deliver { message });
    }

    /// Nobody waits: one receiver after the other gets the work of taking it in.
    fn arrive_busy(&mut self, channel: u32, message: u32) {
        let state = &mut self.channels[channel as usize];
        let at = state.next_receiver as usize;
        let receiver = state.receivers.get(at).copied().unwrap_or(NONE);
        state.next_receiver = if at + 1 < state.receivers.len() { at as u32 + 1 } else { 0 };
        let task = if receiver == NONE { NONE } else { self.channel_task(receiver, channel) };
        self.by_device(task, self.s.channels[channel as usize].thread.0, Effect::Deliver { message });
    }

    /// The message is in the taker's memory.
    pub(crate) fn deliver(&mut self, message: u32) {
        let Message { channel, to, taker, .. } = self.messages[message as usize];
        // Between vCPUs that share memory, what one writes the other sees if it polls.
        let by_memory = self.s.channels[channel as usize].doorbell == Doorbell::Memory;
        if let MessageSender::Strand(strand) = to {
            self.free_messages.push(message);
            self.strands[strand as usize].replies += 1;
            if self.strands[strand as usize].wait == StrandWait::Reply {
                self.interrupt(strand, by_memory);
            }
            return;
        }
        let taker = match taker {
            NONE => self.channels[channel as usize].waiting.pop_front(),
            taker => Some(taker),
        };
        match taker {
            Some(strand) => {
                self.strands[strand as usize].message = message;
                self.interrupt(strand, by_memory);
            }
            None => self.arrived(channel, message),
        }
    }

    /// The message waits until somebody receives it.
    fn arrived(&mut self, channel: u32, message: u32) {
        let state = &mut self.channels[channel as usize];
        state.arrived.push_back(message);
        let waiting = state.arrived.len();
        if waiting > self.limits.messages {
            let why = if state.receivers.is_empty() {
                "no program receives from it"
            } else {
                "they come faster than they are received"
            };
            let channel = self.s.channels[channel as usize].name.clone();
            self.trouble = Some(SimError::Flooded { channel, waiting, why, at: self.now });
        }
    }

    /// Plans a client's next message.
    pub(crate) fn plan_client(&mut self, load: u32, client: u32) {
        let span = match self.s.loads[load as usize].arrival {
            Arrival::Closed { think, .. } => think,
            Arrival::Open { every } => every,
        };
        let at = self.now.saturating_add(sample(&mut self.outside, span));
        self.queue.plan(at, QueuedEvent::Client { load, client });
    }

    pub(crate) fn client_sends(&mut self, load: u32, client: u32) {
        let spec = &self.s.loads[load as usize];
        self.sent_at[load as usize][client as usize] = self.now;
        let message =
            self.new_message(spec.channel as u32, MessageSender::Client { load, client }, MessageSender::Nobody);
        self.depart(message);
        if matches!(spec.arrival, Arrival::Open { .. }) {
            self.plan_client(load, client);
        }
    }

    fn client_is_answered(&mut self, load: u32, client: u32) {
        let time = self.now - self.sent_at[load as usize][client as usize];
        self.m.loads[load as usize].record(time);
        if matches!(self.s.loads[load as usize].arrival, Arrival::Closed { .. }) {
            self.plan_client(load, client);
        }
    }

    /// The strand's access is handed to the device model's task.
    pub(crate) fn ask_device_model(&mut self, strand: u32) {
        let vm = &self.vms[self.strands[strand as usize].vm as usize];
        let (task, spec) = (vm.device_model, vm.spec);
        self.m.vms[spec].to_device_model.record(self.now - self.strands[strand as usize].exit_at);
        let time = self.s.costs.device.time.0.saturating_add(self.s.costs.wake.time.0);
        self.by_device(task, time, Effect::Answer { strand });
    }

    /// A strand has handed a request to a disk: through its thread, if it has one.
    pub(crate) fn submit(&mut self, disk: u32, strand: u32) {
        let half = self.disk_spec(disk, strand).thread.0 / 2;
        self.by_device(self.disks[disk as usize].task, half, Effect::Disk { disk, strand });
    }

    fn disk_spec(&self, disk: u32, strand: u32) -> &exitscope_scenario::Disk {
        let vm = &self.vms[self.strands[strand as usize].vm as usize];
        &self.s.vms[vm.spec].disks[(disk - vm.first_disk) as usize]
    }

    pub(crate) fn disk_starts(&mut self, disk: u32, strand: u32) {
        let (service, parallel) = (self.disk_spec(disk, strand).service, self.disk_spec(disk, strand).parallel);
        let state = &mut self.disks[disk as usize];
        if state.busy >= parallel.max(1) {
            state.queued.push_back(strand);
            return;
        }
        state.busy += 1;
        let time = sample(&mut self.strands[strand as usize].rng, service);
        self.queue.plan(self.now.saturating_add(time), QueuedEvent::DiskDone { disk, strand });
    }

    pub(crate) fn disk_done(&mut self, disk: u32, strand: u32) {
        self.disks[disk as usize].busy -= 1;
        if let Some(next) = self.disks[disk as usize].queued.pop_front() {
            self.disk_starts(disk, next);
        }
        let half = self.disk_spec(disk, strand).thread.0 / 2;
        self.by_device(self.disks[disk as usize].task, half, Effect::DiskSeen { disk, strand });
    }

    pub(crate) fn disk_seen(&mut self, disk: u32, strand: u32) {
        let first = self.vms[self.strands[strand as usize].vm as usize].first_disk;
        let st = &mut self.strands[strand as usize];
        st.disk_done[(disk - first) as usize] += 1;
        if st.wait == StrandWait::Disk(disk - first) {
            self.interrupt(strand, false);
        }
    }
}
