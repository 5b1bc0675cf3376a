//! Overrides: `--set key=value` becomes a value in the tree, before anything is understood.

use super::Fault;
use super::fields::unknown;
use super::node::{Entry, Node, Value, ValuePosition, quoted};
use super::rows::{COSTS, HOST, SCENARIO, SCHEDULER, ScenarioKey};
use crate::CostModel;
use crate::library::LIBRARY;
use crate::set_key::written_out;
use exitscope_policy::{all_knobs, knob};

/// Puts `value` where `key` says.
pub(crate) fn set(root: &mut Node, key: &str, value: &str, at: ValuePosition) -> Result<(), Fault> {
    let value = read_value(value, at);
    let whole = written_out(key);
    let keys: Vec<&str> = whole.split('.').collect();
    let keys = &keys[..];
    if keys.len() > 16 || keys.iter().any(|key| key.is_empty()) {
        return Err(fault(at, format!("{} is not a key", quoted(key))));
    }
    match keys {
        [name] if knob(name).is_some() => {
            for vm in vms(root) {
                if vm.get("policies").is_some_and(|policies| policies.get(name).is_some()) {
                    put(vm, &["policies", name], value.clone())?;
                }
            }
            put(root, &["policies", name], value)
        }
        [name] if !SCENARIO.iter().any(|row| row.key == *name) => {
            let known = SCENARIO.iter().map(|row| row.key).chain(all_knobs().map(|knob| knob.name));
            let says = match path_of(name) {
                Some(path) => format!("there is no key or knob {}; did you mean {path:?}?", quoted(name)),
                None => unknown(name, "key or knob", known),
            };
            Err(fault(at, says))
        }
        ["vm", vm, name] => {
            let vm = find(root, &["vm", vm], at)?;
            if knob(name).is_some() {
                return put(vm, &["policies", name], value);
            }
            let mut parameter = false;
            for program in list(vm, "program") {
                if takes(program, name) {
                    put(program, &[name], value.clone())?;
                    parameter = true;
                }
            }
            if parameter { Ok(()) } else { put(vm, &[name], value) }
        }
        keys => put(root, keys, value),
    }
}

/// Where the key of this name is, if it is in a table that there is once.
fn path_of(name: &str) -> Option<String> {
    let costs = CostModel::ROWS.iter().map(|row| ("costs", row.0));
    let keys = |table: &'static str, rows: &'static [ScenarioKey]| rows.iter().map(move |row| (table, row.key));
    let all = keys("host", HOST).chain(keys("host.scheduler", SCHEDULER)).chain(keys("costs", COSTS)).chain(costs);
    let mut found = all.filter(|row| row.1 == name);
    found.next().map(|(table, key)| format!("{table}.{key}"))
}

/// As TOML, if it is a whole number, a switch, a list, a table or a text in quotes; else the text as it is.
fn read_value(text: &str, at: ValuePosition) -> Node {
    match Node::value(text.trim(), at) {
        Ok(node) if !matches!(node.value, Value::Other(_)) => node,
        _ => Node { at, value: Value::Text(text.trim().to_string()) },
    }
}

fn fault(at: ValuePosition, what: String) -> Fault {
    Fault { at, path: String::new(), what }
}

/// The tables of this key; none if it has others.
fn list<'a>(node: &'a mut Node, key: &str) -> impl Iterator<Item = &'a mut Node> {
    let entries = match &mut node.value {
        Value::Table(entries) => entries.iter_mut().find(|entry| entry.key == key),
        _ => None,
    };
    let nodes = entries.and_then(|entry| match &mut entry.node.value {
        Value::List(nodes) => Some(nodes.iter_mut()),
        _ => None,
    });
    nodes.into_iter().flatten()
}

fn vms(root: &mut Node) -> impl Iterator<Item = &mut Node> {
    list(root, "vm")
}

/// Whether a program is one of the library's that has this parameter.
fn takes(program: &Node, parameter: &str) -> bool {
    let library = program.get("library").and_then(Node::as_text);
    let library = LIBRARY.iter().find(|row| Some(row.name) == library);
    library.is_some_and(|library| library.parameters.iter().any(|row| row.key == parameter))
}

/// Sets the value behind these keys; tables that are not there are made.
fn put(node: &mut Node, keys: &[&str], value: Node) -> Result<(), Fault> {
    let Some((last, tables)) = keys.split_last() else { return Ok(()) };
    let at = value.at;
    let table = find(node, tables, at)?;
    if let Value::List(nodes) = &mut table.value
        && let Some(node) = last.parse().ok().and_then(|number: usize| nodes.get_mut(number))
    {
        *node = value;
        return Ok(());
    }
    if let Value::List(nodes) = &table.value {
        let names: Vec<&str> = nodes.iter().filter_map(|node| node.get("name")?.as_text()).collect();
        let list = tables.last().copied().unwrap_or_default();
        return Err(fault(
            at,
            match names.contains(last) {
                true => format!("{} has several keys: set one of them, {list}.{last}.key=value", quoted(last)),
                false => unknown(last, list, names.into_iter()),
            },
        ));
    }
    let Value::Table(entries) = &mut table.value else {
        return Err(fault(at, format!("{} is not a table, and has no {}", quoted(&tables.join(".")), quoted(last))));
    };
    match entries.iter_mut().find(|entry| entry.key == *last) {
        Some(entry) => *entry = Entry { at, node: value, key: last.to_string() },
        None => entries.push(Entry { at, node: value, key: last.to_string() }),
    }
    Ok(())
}

/// The table behind these keys; in lists of tables, by name or by number.
fn find<'a>(mut node: &'a mut Node, keys: &[&str], at: ValuePosition) -> Result<&'a mut Node, Fault> {
    let mut path = "file";
    for key in keys {
        node = match &mut node.value {
            Value::Table(entries) => {
                let position = entries.iter().position(|entry| entry.key == *key).unwrap_or_else(|| {
                    let node = Node { at, value: Value::Table(Vec::new()) };
                    entries.push(Entry { key: key.to_string(), at, node });
                    entries.len() - 1
                });
                &mut entries[position].node
            }
            Value::List(nodes) => {
                let named = |node: &Node| node.get("name").and_then(Node::as_text) == Some(key);
                let number = || key.parse().ok().filter(|number| *number < nodes.len());
                let Some(position) = nodes.iter().position(named).or_else(number) else {
                    let names: Vec<&str> = nodes.iter().filter_map(|node| node.get("name")?.as_text()).collect();
                    return Err(fault(at, unknown(key, path, names.into_iter())));
                };
                &mut nodes[position]
            }
            _ => {
                let what = format!("{} is not a table, and has no {}", quoted(path), quoted(key));
                return Err(fault(at, what));
            }
        };
        path = key;
    }
    Ok(node)
}
