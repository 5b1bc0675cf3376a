//! The CPUs that the cpuset of a thread's control group lets it run on.
//!
//! sched_setaffinity(2) cuts what it is given down to them, and fails if nothing is left. The thread's own mask is no help: it
//! may be narrower now, and the whole set is still allowed.

use crate::settings::listed_cpus;
use std::fs;
use std::path::{Path, PathBuf};

/// Where control groups are mounted.
const MOUNTS: &str = "/sys/fs/cgroup";

/// The CPUs allowed to a thread of this host, as far as the host says; and whether its cpuset is the root's, which lists only CPUs
/// that are on.
pub fn cpuset(process: u32, thread: u32) -> Option<(Vec<usize>, bool)> {
    let groups = fs::read_to_string(format!("/proc/{process}/task/{thread}/cgroup")).ok()?;
    of_groups(&groups, Path::new(MOUNTS))
}

/// The CPUs of the groups that /proc/PID/cgroup lists: lines of `NUMBER:CONTROLLERS:PATH`, see cgroups(7). Version 1 has a
/// line with the controller `cpuset`; of version 2 it is the line without controllers. Also whether they are those of the root.
fn of_groups(groups: &str, mounts: &Path) -> Option<(Vec<usize>, bool)> {
    let lines = || groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let of_one = lines().find(|(controllers, _)| controllers.split(',').any(|controller| controller == "cpuset"));
    if let Some((controllers, path)) = of_one {
        let folders = ["cpuset", controllers].map(|name| below(&mounts.join(name), path));
        return folders.into_iter().flatten().find_map(|folder| {
            // The root of all has the file (kernel/cgroup/cgroup-v1.c); that of a namespace is called `/`, too.
            let is_root = path == "/" && folder.join("release_agent").exists();
            Some((listed_cpus(&folder.join("cpuset.effective_cpus"))?, is_root))
        });
    }
    let path = lines().find(|(controllers, _)| controllers.is_empty())?.1;
    let mounts = [mounts.to_path_buf(), mounts.join("unified")];
    mounts.iter().find_map(|mount| {
        let folder = below(mount, path)?;
        // Where the controller is not enabled, that of the next folder above counts.
        let mut up = folder.ancestors().take_while(|folder| folder.starts_with(mount));
        // The root of all has no type (kernel/cgroup/cgroup.c); that of a namespace has one.
        let is_root = |folder: &Path| folder == mount && !folder.join("cgroup.type").exists();
        up.find_map(|folder| Some((listed_cpus(&folder.join("cpuset.cpus.effective"))?, is_root(folder))))
    })
}

/// The folder of a group, if it is visible here: a path of another namespace (`/../x`) is not.
fn below(mount: &Path, path: &str) -> Option<PathBuf> {
    let is_inside = path.split('/').all(|part| part != "..");
    let folder = mount.join(path.trim_start_matches('/'));
    (is_inside && folder.is_dir()).then_some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_is_that_of_the_threads_own_group() {
        let mounts = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = mounts.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("cpuset.cpus.effective", "0-7\n");
        write("machine/cpuset.cpus.effective", "2-3,6\n");
        write("machine/vm/vcpu0/cgroup.procs", "");
        write("empty/cpuset.cpus.effective", "\n");
        write("cpuset/machine/cpuset.effective_cpus", "1\n");
        write("cpuset/machine/cpuset.cpus", "0-1\n");
        for (groups, cpus) in [
            ("0::/\n", Some((vec![0, 1, 2, 3, 4, 5, 6, 7], true))),
            ("0::/empty\n", Some((vec![0, 1, 2, 3, 4, 5, 6, 7], true))),
            ("0::/machine/vm/vcpu0\n", Some((vec![2, 3, 6], false))),
            ("0::/machine\n", Some((vec![2, 3, 6], false))),
            ("9:name=systemd:/\n3:cpuset:/machine\n0::/machine\n", Some((vec![1], false))),
            // What is not visible here says nothing.
            ("3:cpuset:/other\n0::/machine\n", None),
            ("0::/other\n", None),
            ("0::/../machine\n", None),
            ("9:name=systemd:/\n", None),
            ("", None),
        ] {
            assert_eq!(of_groups(groups, mounts.path()), cpus, "{groups}");
        }
        assert_eq!(cpuset(std::process::id(), 0), None, "there is no such thread");
        // In a namespace of its own, a container's group is called as the root is.
        write("cgroup.type", "domain\n");
        assert_eq!(of_groups("0::/\n", mounts.path()).map(|found| found.1), Some(false));
        write("cpuset/cpuset.effective_cpus", "0-1\n");
        assert_eq!(of_groups("3:cpuset:/\n", mounts.path()), Some((vec![0, 1], false)));
        write("cpuset/release_agent", "\n");
        assert_eq!(of_groups("3:cpuset:/\n", mounts.path()), Some((vec![0, 1], true)));
    }
}
