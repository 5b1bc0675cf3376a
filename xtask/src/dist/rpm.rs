//! The package for Fedora, openSUSE and their like: the files of Debian's, at the places that differ there.
//!
//! By the crate `rpm` and the rows of `contents`: cargo-generate-rpm would want the same list a second time, in Cargo.toml.

use super::contents::{Layout, PackagedFile, files};
use super::deb::MAINTAINER;
use crate::root;
use anyhow::Context;
use exitscope_record::Capability;
use rpm::{BuildConfig, CompressionWithLevel, Dependency, FileOptions, PackageBuilder, Scriptlet, Timestamp};
use std::fs;
use std::path::Path;

/// What Debian alone has a use for.
const DEBIAN_ONLY: [&str; 3] = [
    "usr/share/lintian/overrides/exitscope",
    "usr/share/doc/exitscope/changelog.gz",
    "usr/share/doc/exitscope/copyright",
];

/// Folders that are called otherwise here.
const MOVED: [(&str, &str); 1] = [("usr/share/zsh/vendor-completions/", "usr/share/zsh/site-functions/")];

/// Folders that go with the package, unless another has them, too.
const FOLDERS: [&str; 10] = [
    "/usr/lib/systemd/system/sys-kernel-tracing.mount.d",
    "/usr/libexec/exitscope",
    "/usr/share/doc/exitscope",
    "/usr/share/exitscope",
    "/usr/share/exitscope/mixin",
    "/usr/share/fish",
    "/usr/share/fish/vendor_completions.d",
    "/usr/share/licenses/exitscope",
    "/usr/share/zsh",
    "/usr/share/zsh/site-functions",
];

const LICENCES: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];

const DESCRIPTION: &str = "Shows why a virtual machine is slow: which exits, halts and waits take its vCPUs' time, and what a change \
    would gain. Reads perf.data, trace.dat, ftrace text and xentrace logs, or records and watches the running host. Members of the \
    group exitscope may record without being root.";

/// The package's name in dist/.
pub fn name() -> String {
    format!("exitscope-{}-1.x86_64.rpm", super::VERSION)
}

/// Writes the package of a program.
pub fn make(program: &Path, into: &Path) -> anyhow::Result<()> {
    let date = Timestamp(super::source_date()?.try_into()?);
    let config = BuildConfig::v4().source_date(date).compression(CompressionWithLevel::Zstd(12));
    let summary = "Where virtual machines lose time in VM exits";
    let mut package = PackageBuilder::new("exitscope", super::VERSION, "MIT OR Apache-2.0", "x86_64", summary);
    package.using_config(config).release("1").url(env!("CARGO_PKG_REPOSITORY")).packager(MAINTAINER);
    package.description(DESCRIPTION).requires(Dependency::script_pre("shadow-utils"));
    for PackagedFile { path, bytes, mode } in files(Layout::System, program)? {
        if DEBIAN_ONLY.contains(&path.as_str()) {
            continue;
        }
        let moved = MOVED.iter().find_map(|(from, to)| Some(format!("{to}{}", path.strip_prefix(from)?)));
        let options = FileOptions::new(format!("/{}", moved.unwrap_or(path))).permissions(mode.try_into()?);
        package.with_file_contents(bytes, options)?;
    }
    for folder in FOLDERS {
        package.with_dir_entry(FileOptions::dir(folder).permissions(0o755))?;
    }
    for name in LICENCES {
        let text = fs::read(root().join(name)).context(name)?;
        package
            .with_file_contents(text, FileOptions::new(format!("/usr/share/licenses/exitscope/{name}")).license())?;
    }
    // The copy that the group alone may run, as contrib/debian/postinst makes it.
    let permitted = FileOptions::new("/usr/libexec/exitscope/exitscope").permissions(0o750).group("exitscope");
    let permitted = permitted.caps(Capability::where_tracefs_is_readable().replace('+', "="))?;
    package.with_file_contents(fs::read(program)?, permitted)?;
    package.pre_install_script(script("pre")?).post_install_script(script("post")?);
    package.pre_uninstall_script(script("preun")?).post_uninstall_script(script("postun")?);
    Ok(package.build()?.write_file(into.join(name()))?)
}

fn script(name: &str) -> anyhow::Result<Scriptlet> {
    let path = root().join("contrib/rpm").join(name);
    Ok(Scriptlet::new(fs::read_to_string(&path).with_context(|| path.display().to_string())?))
}
