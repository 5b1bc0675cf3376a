//! The tarball: one folder, with the program that starts from it.

use super::compile::Flavour;
use super::contents::{Layout, PackagedFile, compressed, files};
use std::collections::BTreeSet;
use std::path::Path;
use tar::{Builder, EntryType, Header};

/// The name of a flavour's folder; its tarball has it, too.
pub fn folder_name(flavour: &Flavour) -> String {
    format!("{}-{}-x86_64-linux", flavour.name, super::VERSION)
}

/// Writes the tarball of a program.
pub fn make(flavour: &Flavour, program: &Path, into: &Path) -> anyhow::Result<()> {
    let name = folder_name(flavour);
    let archive = archive(&files(Layout::Folder, program)?, Some(&name))?;
    Ok(std::fs::write(into.join(format!("{name}.tar.gz")), compressed(&archive)?)?)
}

/// A tar archive of files, which are root's, with the folders that they are in.
pub fn archive(files: &[PackagedFile], below: Option<&str>) -> anyhow::Result<Vec<u8>> {
    let modified = super::source_date()?;
    let mut archive = Builder::new(Vec::new());
    let mut made = BTreeSet::new();
    let header = |kind: EntryType, mode: u32, size: usize| {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_mtime(modified);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(size as u64);
        header
    };
    for file in files {
        let path = below.map_or(file.path.clone(), |below| format!("{below}/{}", file.path));
        let folders = path.match_indices('/').map(|(at, _)| path[..=at].to_string());
        for folder in folders.filter(|folder| made.insert(folder.clone())).collect::<Vec<_>>() {
            archive.append_data(&mut header(EntryType::Directory, 0o755, 0), &folder, [].as_slice())?;
        }
        let mut of = header(EntryType::Regular, file.mode, file.bytes.len());
        archive.append_data(&mut of, &path, file.bytes.as_slice())?;
    }
    Ok(archive.into_inner()?)
}
