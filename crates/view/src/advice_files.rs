//! Advice as a file for the system that takes it: a tuned profile, modprobe.d, tmpfiles.d, libvirt's XML, QEMU's options,
//! a script.
//!
//! ```text
//! settings ─► what the form can say ─► lines, by section     nothing is left out:
//!          └► what it cannot ───────► comments               it is there, or it is a comment
//! ```

use crate::advice::{AdviceReport, AdviceRow, AdviceSettingRow, CPU_FEATURES};
use crate::advice_page::gain;
use exitscope_model::encode::line;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// A form that settings can be printed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsFormat {
    /// A tuned profile.
    Tuned,
    /// A file of modprobe.d.
    Modprobe,
    /// A file of tmpfiles.d, which writes sysfs at boot.
    Sysfs,
    /// Elements of libvirt's domain XML.
    Libvirt,
    /// Options of QEMU's.
    Qemu,
    /// A shell script that sets it now.
    Script,
}

impl SettingsFormat {
    fn what(self) -> &'static str {
        match self {
            SettingsFormat::Tuned => "a tuned profile",
            SettingsFormat::Modprobe => "a file of modprobe.d",
            SettingsFormat::Sysfs => "a file of tmpfiles.d",
            SettingsFormat::Libvirt => "libvirt's domain XML",
            SettingsFormat::Qemu => "QEMU's command line",
            SettingsFormat::Script => "a script",
        }
    }

    /// Whether it is a file of the host's that sets what is in it at each boot.
    fn is_file(self) -> bool {
        match self {
            SettingsFormat::Tuned | SettingsFormat::Modprobe | SettingsFormat::Sysfs => true,
            SettingsFormat::Libvirt | SettingsFormat::Qemu | SettingsFormat::Script => false,
        }
    }
}

/// Prints the settings of `side` (`host` or `guest`) in a form; those that it cannot express as comments.
pub fn write_settings(advised: &AdviceReport, form: SettingsFormat, side: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut file = File {
        form,
        side,
        sections: BTreeMap::new(),
        conditional: Vec::new(),
        instead: Vec::new(),
        comments: Vec::new(),
    };
    for row in &advised.advice {
        file.take(row);
    }
    file.write(advised, out)
}

/// Which section of the file, and its line.
type Place = (String, String);

struct File<'a> {
    form: SettingsFormat,
    side: &'a str,
    sections: BTreeMap<String, Vec<String>>,
    /// What the form can say, on conditions that the recording does not tell.
    conditional: Vec<String>,
    /// The same, of advice to an end for which there is better advice.
    instead: Vec<String>,
    comments: Vec<String>,
}

impl File<'_> {
    fn take(&mut self, row: &AdviceRow) {
        let whose = match row.scope {
            "host" => format!("{}.", row.number),
            _ => format!("{}. {}:", row.number, row.scope_text),
        };
        for setting in &row.settings {
            match self.place(&row.scope_text, setting) {
                Some(_) if row.instead_of.is_some() => self.instead.push(format!("{whose} {}", setting.text)),
                // All of them together would be right for no guest.
                Some(_) if setting.condition.is_some() => self.conditional.push(format!("{whose} {}", setting.text)),
                Some((section, line)) => {
                    let lines = self.sections.entry(section).or_default();
                    if !lines.contains(&line) {
                        lines.push(line);
                    }
                }
                None => self.comments.push(format!("{whose} {}", setting.text)),
            }
        }
    }

    /// Where a setting goes in this form, if it can express it.
    fn place(&self, vm: &str, setting: &AdviceSettingRow) -> Option<Place> {
        let of_vm = || vm.to_string();
        let value = &setting.value;
        match (self.form, setting.kind) {
            (SettingsFormat::Qemu, "qemu") if value.starts_with(CPU_FEATURES) => Some((of_vm(), value.clone())),
            // What has to be filled in by hand would break a command line that is used as it is.
            (SettingsFormat::Qemu, "qemu") if value.contains('…') || value.starts_with('(') => None,
            (SettingsFormat::Libvirt, "libvirt") => Some((of_vm(), format!("{}\t{value}", setting.within?))),
            (SettingsFormat::Qemu, "qemu") => Some((of_vm(), value.clone())),
            (SettingsFormat::Libvirt | SettingsFormat::Qemu, _) => None,
            _ if setting.side != Some(self.side) => None,
            (form, "knob") => knob(form, setting),
            (SettingsFormat::Tuned, "module") => {
                Some(("modules".into(), format!("{}=+r {value}", setting.name.as_ref()?)))
            }
            (SettingsFormat::Modprobe, "module") => {
                Some(("".into(), format!("options {} {value}", setting.name.as_ref()?)))
            }
            (SettingsFormat::Script, "module") => {
                Some(("".into(), format!("modprobe {} {value}", setting.name.as_ref()?)))
            }
            (SettingsFormat::Tuned, "boot") => Some(("bootloader".into(), format!("cmdline_exitscope=+{value}"))),
            _ => None,
        }
    }

    fn write(&self, advised: &AdviceReport, out: &mut dyn Write) -> io::Result<()> {
        let (open, close) = if self.form == SettingsFormat::Libvirt { ("<!-- ", " -->") } else { ("# ", "") };
        let mut say = |out: &mut dyn Write, text: &str| {
            // Names come from traces: a comment must stay one.
            let text = line(text);
            let text = if open.starts_with('<') { text.replace("--", "- -").into() } else { text };
            writeln!(out, "{open}{text}{close}")
        };
        if self.form == SettingsFormat::Script {
            writeln!(out, "#!/bin/sh")?;
        }
        say(out, &format!("From exitscope advise {}. {}", advised.trace.name, self.purpose()))?;
        if advised.advice.is_empty() {
            say(out, "No advice.")?;
        }
        for row in &advised.advice {
            say(out, &format!("{}. {}: {}", row.number, row.scope_text, row.change))?;
            say(out, &format!("   gain: {}", gain(&row.gain)))?;
            // What a file sets comes back with it at each boot: how to undo that is said of the file.
            let undo = if self.form.is_file() { String::new() } else { format!("; undo: {}", row.undo) };
            say(out, &format!("   takes effect: {}{undo}", row.takes_effect))?;
            say(out, &format!("   risk: {}", row.risk))?;
            say(out, &format!("   who pays: {}", row.who_pays))?;
        }
        match self.form {
            SettingsFormat::Libvirt => self.write_xml(out, &mut say)?,
            SettingsFormat::Qemu => {
                for (vm, options) in &self.sections {
                    say(out, vm)?;
                    let (others, features) = one_cpu(options);
                    for option in others {
                        writeln!(out, "{option}")?;
                    }
                    if !features.is_empty() {
                        say(out, &format!("append to the VM's own -cpu option: ,{}", features.join(",")))?;
                        say(
                            out,
                            "(a second -cpu option would replace the VM's CPU model, and with it the hosts that \
                            it can migrate to)",
                        )?;
                    }
                }
            }
            _ => self.write_sections(out)?,
        }
        for (heading, lines) in [
            ("Only those that fit the guest; the recording does not show which do:", &self.conditional),
            ("Alternatives to better advice for the same problem; apply one or the other, not both:", &self.instead),
            ("Cannot be written in this form:", &self.comments),
        ] {
            if !lines.is_empty() {
                say(out, heading)?;
            }
            lines.iter().try_for_each(|line| say(out, &format!("  {line}")))?;
        }
        Ok(())
    }

    fn purpose(&self) -> String {
        match self.form {
            form if self.sections.is_empty() => format!("Nothing of it goes into {} as it is", form.what()),
            // TuneD merges the profiles that it is given, and takes back the settings of those that it is no longer given.
            SettingsFormat::Tuned => "Save as /etc/tuned/profiles/exitscope/tuned.conf (older versions of TuneD look \
                in /etc/tuned/exitscope), then run `tuned-adm profile ACTIVE exitscope`, where ACTIVE is what \
                `tuned-adm active` prints: without ACTIVE, TuneD would revert that profile's settings. To undo it, \
                run `tuned-adm profile ACTIVE`"
                .to_string(),
            SettingsFormat::Modprobe => {
                "Save as /etc/modprobe.d/exitscope.conf; it takes effect when the modules are loaded. If a module is \
                 built into the kernel, add the words of the comment below its line to the kernel's command line \
                 instead. To undo it, remove the file and reload the modules"
                    .to_string()
            }
            SettingsFormat::Sysfs => "Save as /etc/tmpfiles.d/exitscope.conf; `systemd-tmpfiles --create` applies it \
                now. To undo it, remove the file and write the old values back"
                .to_string(),
            SettingsFormat::Libvirt => "Merge this into the domains with `virsh edit`, then restart them".to_string(),
            SettingsFormat::Qemu => "Add this to QEMU's command line".to_string(),
            SettingsFormat::Script => format!("For the {}; prints how to undo each step", self.side),
        }
    }

    fn write_sections(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.form == SettingsFormat::Tuned && !self.sections.is_empty() {
            writeln!(out, "[main]\nsummary=From a recording of VM exits")?;
        }
        if self.form == SettingsFormat::Script && !self.sections.is_empty() {
            writeln!(out, "set -eu")?;
        }
        for (section, lines) in &self.sections {
            if !section.is_empty() {
                writeln!(out, "\n[{section}]")?;
            }
            for line in lines {
                writeln!(out, "{line}")?;
            }
        }
        Ok(())
    }

    fn write_xml(
        &self,
        out: &mut dyn Write,
        say: &mut impl FnMut(&mut dyn Write, &str) -> io::Result<()>,
    ) -> io::Result<()> {
        for (vm, lines) in &self.sections {
            say(out, vm)?;
            writeln!(out, "<domain>")?;
            let mut elements: Vec<(Vec<&str>, &str)> = lines
                .iter()
                .filter_map(|line| line.split_once('\t'))
                .map(|(at, xml)| (at.split('/').collect(), xml))
                .collect();
            elements.sort();
            let mut open: Vec<&str> = Vec::new();
            for (path, xml) in elements {
                let common = open.iter().zip(&path).take_while(|(a, b)| a == b).count();
                close_to(&mut open, common, out)?;
                for name in &path[common..] {
                    open.push(name);
                    writeln!(out, "{}<{name}>", "  ".repeat(open.len()))?;
                }
                let indent = "  ".repeat(open.len() + 1);
                // What has to be filled in is a comment until it is.
                let blank = blank(xml);
                if let Some(what) = blank {
                    write!(out, "{indent}")?;
                    say(out, &format!("fill in {what}, then uncomment:"))?;
                }
                for element in xml.lines() {
                    match blank {
                        None => writeln!(out, "{indent}{element}")?,
                        Some(_) => {
                            write!(out, "{indent}")?;
                            say(out, element)?;
                        }
                    }
                }
            }
            close_to(&mut open, 0, out)?;
            writeln!(out, "</domain>")?;
        }
        Ok(())
    }
}

/// What of an element is for a person to fill in, as the recording does not say it; `None` of one that is whole.
fn blank(xml: &str) -> Option<&'static str> {
    const BLANKS: &[(&str, &str)] = &[
        (
            "<vcpupin ",
            "for each vCPU, the number of a CPU that nobody else needs; the recording does not show which CPUs are \
             free",
        ),
        ("<topology ", "the number of cores: the VM's vCPUs divided by the threads per core"),
        ("<disk ", "the disk's own attributes and elements, as they are now"),
        ("<driver ", "the driver's other attributes, as they are now"),
    ];
    let known = BLANKS.iter().find(|(element, _)| xml.starts_with(element)).map_or("what is missing", |row| row.1);
    xml.contains('…').then_some(known)
}

fn close_to(open: &mut Vec<&str>, depth: usize, out: &mut dyn Write) -> io::Result<()> {
    while open.len() > depth {
        let indent = "  ".repeat(open.len());
        let Some(name) = open.pop() else { break };
        writeln!(out, "{indent}</{name}>")?;
    }
    Ok(())
}

/// Where a knob of the kernel's goes.
fn knob(form: SettingsFormat, setting: &AdviceSettingRow) -> Option<Place> {
    let (file, name, value) = (setting.file.as_ref()?, setting.name.as_ref()?, &setting.value);
    let module = file.strip_prefix("/sys/module/").and_then(|rest| rest.split('/').next());
    match form {
        SettingsFormat::Sysfs => setting.writable.then(|| ("".into(), format!("w {file} - - - - {value}"))),
        SettingsFormat::Tuned if setting.writable => Some(("sysfs".into(), format!("{file}={value}"))),
        SettingsFormat::Tuned => Some(("modules".into(), format!("{}={name}={value}", module?))),
        // The governor haltpoll is always a part of the kernel itself.
        SettingsFormat::Modprobe if module == Some("haltpoll") => None,
        SettingsFormat::Modprobe => {
            let module = module?;
            Some(("".into(), format!("options {module} {name}={value}\n# built in: {module}.{name}={value}")))
        }
        SettingsFormat::Script => setting
            .writable
            .then(|| ("".into(), format!("echo \"undo: echo $(cat {file}) > {file}\"\necho {value} > {file}"))),
        SettingsFormat::Libvirt | SettingsFormat::Qemu => None,
    }
}

/// The other options, and the features that go to the processor model that the VM has: QEMU goes by the last `-cpu` alone, so
/// that one line more would replace the model.
fn one_cpu(options: &[String]) -> (Vec<&str>, Vec<&str>) {
    let (mut others, mut cpu): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for option in options {
        match option.strip_prefix(CPU_FEATURES) {
            Some(features) => {
                for feature in features.split(',').filter(|feature| !feature.is_empty()) {
                    if !cpu.contains(&feature) {
                        cpu.push(feature);
                    }
                }
            }
            None => others.push(option),
        }
    }
    (others, cpu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_advice::{AdviceSetting, SettingSide};

    #[test]
    fn what_a_guest_is_to_load_and_a_vm_is_to_offer_has_its_place_in_each_form() {
        let (side, name, parameters) = (SettingSide::Guest, "cpuidle-haltpoll", "force=1");
        let module = AdviceSetting::Module { side, name, parameters };
        let element = AdviceSetting::Libvirt { within: "features/kvm", xml: "<poll-control state='on'/>".into() };
        let option = AdviceSetting::Qemu("-cpu …,kvm-poll-control=on".into());
        let device = AdviceSetting::Qemu("-device virtio-serial-pci -device virtconsole,chardev=…".into());
        for (form, side, setting, expected) in [
            (SettingsFormat::Tuned, "guest", &module, Some(("modules", "cpuidle-haltpoll=+r force=1"))),
            (SettingsFormat::Modprobe, "guest", &module, Some(("", "options cpuidle-haltpoll force=1"))),
            (SettingsFormat::Script, "guest", &module, Some(("", "modprobe cpuidle-haltpoll force=1"))),
            (SettingsFormat::Script, "host", &module, None),
            (SettingsFormat::Libvirt, "host", &module, None),
            (SettingsFormat::Libvirt, "host", &element, Some(("VM 7", "features/kvm\t<poll-control state='on'/>"))),
            (SettingsFormat::Qemu, "host", &option, Some(("VM 7", "-cpu …,kvm-poll-control=on"))),
            // What is to be filled in.
            (SettingsFormat::Qemu, "host", &device, None),
            (SettingsFormat::Tuned, "guest", &option, None),
        ] {
            let (sections, conditional, instead, comments) = Default::default();
            let file = File { form, side, sections, conditional, instead, comments };
            let place = file.place("VM 7", &AdviceSettingRow::of(setting));
            let place = place.as_ref().map(|(section, line)| (section.as_str(), line.as_str()));
            assert_eq!(place, expected, "{form:?} {setting:?}");
        }
    }

    #[test]
    fn features_of_the_processor_go_to_the_model_that_the_vm_has() {
        let options = ["-cpu …,hv-time,hv-synic", "-machine hpet=off", "-cpu …,hv-time,hv-stimer"];
        let options: Vec<String> = options.map(String::from).to_vec();
        assert_eq!(one_cpu(&options), (vec!["-machine hpet=off"], vec!["hv-time", "hv-synic", "hv-stimer"]));
        assert_eq!(one_cpu(&options[1..2]), (vec!["-machine hpet=off"], vec![]));
    }
}
