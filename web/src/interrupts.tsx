// Interrupts: for how long APICv and AVIC were inhibited, why, and exits for the local APIC meanwhile.
import { Bars } from "./bars";
import { colors } from "./colors";
import { count, ns, share } from "./format";
import { data, fullRange } from "./selection";
import { DataTable, type Column } from "./table";
import type { ApicExitRow, ApicExitSums, InhibitRow, VmApicvRow } from "./types.gen";

const nameOf = (vm: VmApicvRow): string => [vm.vm_name, vm.vm].filter((part) => part !== null && part !== undefined).join(" ") || "–";

const total = (vm: VmApicvRow): number => vm.inhibited_ns + vm.allowed_ns + vm.unknown_ns;

/** Whether any VM has something to show. */
export const hasInterrupts = (): boolean => (data.report.interrupts?.vms ?? []).some((vm) => vm.events > 0);

const cost = (of: ApicExitSums): string => (of.cost_ns === null ? "not recorded" : ns(of.cost_ns));
const perSecond = (of: ApicExitSums): string => (of.rate_per_s === null ? "–" : of.rate_per_s.toFixed(of.rate_per_s < 10 ? 1 : 0));

const exitColumns: Column<ApicExitRow>[] = [
  { title: "exits for", text: true, value: (row) => row.what, show: (row) => row.what },
  { title: "inhibited", value: (row) => row.inhibited.count, show: (row) => count(row.inhibited.count) },
  { title: "inhibited, per s", value: (row) => row.inhibited.rate_per_s, show: (row) => perSecond(row.inhibited) },
  { title: "cost, inhibited", value: (row) => row.inhibited.cost_ns, show: (row) => cost(row.inhibited) },
  { title: "not inhibited", value: (row) => row.allowed.count, show: (row) => count(row.allowed.count) },
  { title: "not inhibited, per s", value: (row) => row.allowed.rate_per_s, show: (row) => perSecond(row.allowed) },
  { title: "cost, not inhibited", value: (row) => row.allowed.cost_ns, show: (row) => cost(row.allowed) },
  { title: "not known", value: (row) => row.unknown.count, show: (row) => count(row.unknown.count) },
];

function inhibitColumns(vm: VmApicvRow): Column<InhibitRow>[] {
  return [
    { title: "reason", text: true, value: (row) => row.reason, show: (row) => row.reason },
    { title: "in force", value: (row) => row.in_force_ns, show: (row) => `${ns(row.in_force_ns)}${row.from_begin ? " *" : ""}` },
    { title: "share", value: (row) => row.in_force_ns, show: (row) => share(row.in_force_ns / total(vm)) },
    { title: "set", value: (row) => row.sets, show: (row) => count(row.sets) },
    { title: "first set (s)", value: (row) => row.first_set_ns, show: (row) => (row.first_set_ns === null ? "–" : (row.first_set_ns / 1e9).toFixed(6)) },
    { title: "by vCPU", text: true, value: (row) => row.first_set_in?.vcpu ?? null, show: (row) => row.first_set_in?.vcpu ?? "–" },
    { title: "of", text: true, value: (row) => String(row.avic_alone), show: (row) => (row.avic_alone === null ? "not known" : row.avic_alone ? "AVIC" : "APICv, AVIC") },
    { title: "set by", text: true, value: (row) => row.set_by, show: (row) => row.set_by ?? "not known" },
    { title: "cleared by", text: true, value: (row) => row.cleared_by, show: (row) => row.cleared_by ?? "not known" },
  ];
}

/** Whether the module or the processor keeps it off: the kernel's reason 0. */
const isOff = (vm: VmApicvRow): boolean => vm.inhibits.some((row) => row.number === 0 && row.at_end);

function OfVm({ vm }: { vm: VmApicvRow }) {
  if (vm.of_vms > 1)
    return (
      <p class="note">
        VM {nameOf(vm)}: {count(vm.events)} events of at least {vm.of_vms} VMs. The recording does not show which VM each belongs to, so no state is known.
      </p>
    );
  return (
    <>
      <h3>VM {nameOf(vm)}</h3>
      {isOff(vm) && <p class="note">While the module or the processor has APICv or AVIC off, KVM neither sets nor clears other reasons: those shown date from the VM's start.</p>}
      {vm.inhibits.length > 0 && <DataTable caption={`What inhibits APICv or AVIC: VM ${nameOf(vm)}`} rows={vm.inhibits} columns={inhibitColumns(vm)} />}
      {vm.exits.length > 0 && <DataTable caption={`Exits for the local APIC: VM ${nameOf(vm)}`} rows={vm.exits} columns={exitColumns} />}
    </>
  );
}

export function Interrupts() {
  const vms = data.report.interrupts!.vms.filter((vm) => vm.events > 0);
  const told = vms.filter((vm) => total(vm) > 0);
  return (
    <section id="interrupts" aria-label="Interrupts">
      <h2>APICv and AVIC</h2>
      <p class="note">
        Of {fullRange()}. KVM traces only changes: of the time before a VM's first change, only what that change shows is known. Exits are those for
        the local APIC, without its timer's and nested guests'; which of them APICv or AVIC avoids depends on the processor.
      </p>
      {told.length > 0 && (
        <Bars
          id="inhibited"
          title="For how long APICv or AVIC was inhibited"
          summary={() => told.map((vm) => `${nameOf(vm)}: ${ns(vm.inhibited_ns)} of ${ns(total(vm))}`).join("; ")}
          axis="Share of the VM's time (%)"
          relative
          bars={() => told.slice(0, 16).map((vm) => ({ label: nameOf(vm), parts: [vm.inhibited_ns, vm.allowed_ns, vm.unknown_ns] }))}
          parts={["inhibited", "not inhibited", "not known"]}
          fills={() => [colors.value.parts.steal_ns, colors.value.parts.kernel_ns, colors.value.parts.unknown_ns]}
          show={ns}
          first="VM"
        />
      )}
      {vms.map((vm) => (
        <OfVm vm={vm} />
      ))}
      {vms.some((vm) => vm.inhibits.some((row) => row.from_begin)) && (
        <p class="note">*: already in force before the VM's first event, or before the first moment selected.</p>
      )}
    </section>
  );
}
