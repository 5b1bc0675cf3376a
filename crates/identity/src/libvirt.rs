//! The file in which libvirt keeps the state of a running domain, /run/libvirt/qemu/NAME.xml (virDomainObjFormat of
//! src/conf/domain_conf.c).
//!
//! ```text
//! <domstatus state='running' reason='booted' pid='4711'> … <domain type='kvm' id='1'> <name>, <uuid>, <metadata>
//! ```
//!
//! OpenStack puts `<nova:instance><nova:name>` into the metadata (nova/virt/libvirt/config.py).

use crate::files::HostTree;
use crate::process::VmProcessFiles;
use crate::vmm::VmmCommand;
use exitscope_model::{IdentityField, IdentitySource, VmIdentity};

/// Elements within each other that are looked into.
const DEEPEST: usize = 64;

impl HostTree {
    /// Adds what libvirt's file says, if it is of this process.
    pub(crate) fn add_libvirt_state(
        &self,
        files: &VmProcessFiles,
        command: &VmmCommand,
        identity: &mut VmIdentity,
    ) -> bool {
        // The name is a part of a path here, and must not lead elsewhere.
        let Some(name) = command.name.as_deref().filter(|name| !name.contains('/')) else { return false };
        let Some(text) = self.text(format!("run/libvirt/qemu/{name}.xml")) else { return false };
        let state = DomainState::of(&text);
        // In a container, libvirt knows the process by the number that it has there.
        let is_of_process = state.pid.is_some_and(|pid| files.pids.contains(&pid));
        if !is_of_process || state.name.as_deref() != Some(name) {
            return false;
        }
        for (field, value) in [(IdentityField::Uuid, state.uuid), (IdentityField::DisplayName, state.display_name)] {
            if let Some(value) = value {
                identity.set(field, &value, IdentitySource::LibvirtState);
            }
        }
        true
    }
}

/// What is looked for in such a file.
#[derive(Debug, Default)]
struct DomainState {
    pid: Option<u32>,
    name: Option<String>,
    uuid: Option<String>,
    display_name: Option<String>,
}

impl DomainState {
    fn of(text: &str) -> DomainState {
        let mut state = DomainState::default();
        let mut path: Vec<&str> = Vec::new();
        let mut rest = text;
        while let Some((before, tag)) = rest.split_once('<') {
            let words = || Some(unescaped(before)).filter(|words| !words.is_empty());
            match path[..] {
                ["domstatus", "domain", "name"] => state.name = state.name.take().or_else(words),
                ["domstatus", "domain", "uuid"] => state.uuid = state.uuid.take().or_else(words),
                ["domstatus", "domain", "metadata", "nova:instance", "nova:name"] => {
                    state.display_name = state.display_name.take().or_else(words);
                }
                _ => {}
            }
            let hidden = [("!--", "-->"), ("![CDATA[", "]]>"), ("?", "?>"), ("!", ">")];
            if let Some((_, end)) = hidden.iter().find(|(begin, _)| tag.starts_with(begin)) {
                let Some((_, after)) = tag.split_once(end) else { break };
                rest = after;
                continue;
            }
            let Some((tag, after)) = tag.split_once('>') else { break };
            rest = after;
            let element = tag.trim_start_matches('/').split([' ', '\t', '\n', '/']).next().unwrap_or_default();
            if tag.starts_with('/') {
                path.pop();
            } else if !tag.ends_with('/') {
                path.push(element);
            }
            if path[..] == ["domstatus"] && !tag.starts_with('/') && element == "domstatus" {
                state.pid = attribute(tag, "pid").and_then(|pid| pid.parse().ok());
            }
            if path.len() > DEEPEST {
                break;
            }
        }
        state
    }
}

/// An attribute of a tag. libvirt writes them in single quotes, with what would end them escaped.
fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let (_, value) = tag.split_once(&format!(" {name}='"))?;
    value.split_once('\'').map(|(value, _)| value)
}

/// Text without its references.
fn unescaped(text: &str) -> String {
    let named = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    named.iter().fold(text.trim().to_string(), |text, (reference, letter)| text.replace(reference, letter))
}
