// Who the VMs of the recordings are, by those who run them.
import { data } from "./selection";
import { DataTable, type Column } from "./table";
import type { VmIdentityRow } from "./types.gen";

const rows = (): VmIdentityRow[] => {
  const { traces, selection } = data.report;
  return traces.flatMap((trace) => trace.vms ?? []).filter((row) => selection.vms.length === 0 || selection.vms.includes(row.vm));
};

/** Whether any recording says who a VM is. */
export const hasIdentities = (): boolean => rows().length > 0;

const part = (title: string, of: (row: VmIdentityRow) => string | undefined): Column<VmIdentityRow> => ({
  title,
  text: true,
  value: (row) => of(row) ?? null,
  show: (row) => of(row) ?? "–",
});

const called: Column<VmIdentityRow> = part("VM", (row) => (row.name === undefined ? String(row.vm) : `${row.name} ${row.vm}`));

/** Those without a value are left out. */
const parts: Column<VmIdentityRow>[] = [
  part("manager", (row) => row.manager),
  part("VMID", (row) => row.vmid),
  part("namespace", (row) => row.namespace),
  part("VMI", (row) => row.vmi),
  part("pod", (row) => row.pod),
  part("display name", (row) => row.display_name),
  part("UUID", (row) => row.uuid),
  part("VMs of the process", (row) => (row.vms_of_process === "1" ? undefined : row.vms_of_process)),
];

export function Identities() {
  const all = rows();
  const columns = [called, ...parts.filter((column) => all.some((row) => column.value(row) !== null))];
  return (
    <section id="identities" aria-label="Who the VMs are">
      <h2>VMs, by who runs them</h2>
      <DataTable caption="VMs, by who runs them" rows={all} columns={columns} />
    </section>
  );
}
