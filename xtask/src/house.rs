//! Checks of how the house is built: what no module may do to another, and what ARCHITECTURE.md says of where things are.
//!
//! - *Names*: no type that others than its file may name (`pub`, `pub(crate)`, …: struct, enum, union, trait, alias) has the
//!   name of another one in `crates/`.
//! - *Circles*: modules that use each other, over however many others, lie in one folder. Of the modules beside each other
//!   (the children of a crate, or of a folder), each with all that is below it, those that form a circle are two files at most: a folder
//!   is in none. A module uses another if one of its paths that begin with `crate`, `super` or `self` ends there, followed
//!   through `use` where a name is passed on. What a parent itself has is no child's, and tests are left out.
//! - *Paths*: in the lists of ARCHITECTURE.md, each path exists, and each other word in backquotes is in
//!   the file before it, as a whole word.
//! - *Lengths*: no function is longer than [`MOST_LINES`] lines, from the line of its `fn` to that of its closing brace, with
//!   comments and blank lines in it. (clippy's `too_many_lines` counts neither of those.) Tests are left out.
//! - *Comments*: in the sources of crates and of xtask, each name in backquotes in a comment that has the form of a type's is
//!   an identifier of some Rust file.
//!
//! What was so when the checks began is in `exceptions.toml`, which only shrinks, but for names that comments take from others.
//! An exception that is no longer needed is a finding.

use crate::tidy::contains_word;
use crate::{additions, root};
use anyhow::Context;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};

/// Where the Rust files are of which an identifier may be.
const RUST_FOLDERS: [&str; 5] = ["crates", "xtask", "fuzz", "rig", "bench"];

/// So many files of one folder may use each other.
const MOST_FILES: usize = 2;

/// So many lines a function has at most.
const MOST_LINES: usize = 70;

/// Folders of sources beside those of `crates/`, of which only the lengths of functions are looked at.
const OTHER_SOURCES: [&str; 4] = ["crates/lab/guest/src", "fuzz/src", "rig/tiny-guest/src", "xtask/src"];

/// How often a name is passed on at most.
const MAX_PASSES: usize = 8;

/// What need not hold yet.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exceptions {
    /// By name, how many types have it.
    names: BTreeMap<String, usize>,
    /// By folder, the modules that form a circle.
    circles: BTreeMap<String, Vec<BTreeSet<String>>>,
    /// By file and function (`a.rs`, `Type::name`), how many lines it has.
    lengths: BTreeMap<String, BTreeMap<String, usize>>,
    /// By owner, types and headers of others that comments name.
    comments: BTreeMap<String, BTreeSet<String>>,
}

/// The path of a module in its crate: `["bpf", "count"]`.
type ModulePath = Vec<String>;

/// A module that has a file of its own.
#[derive(Default)]
struct Module {
    file: PathBuf,
    /// What it declares, and who uses it by that name may as well use what it comes from.
    passed_on: BTreeMap<String, ModulePath>,
    /// Where `use …::*` leads.
    passed_on_whole: Vec<ModulePath>,
    /// Paths that it names, without the crate's beginning, and their lines.
    used: Vec<(ModulePath, usize)>,
    /// Types that others may name.
    types: BTreeSet<String>,
    functions: Vec<Function>,
}

/// A function that is no test.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// With its type's, if it is a method: `Type::name`.
    pub name: String,
    pub line: usize,
    /// From its `fn` to its closing brace.
    pub lines: usize,
}

/// All modules of a crate. The crate's root has the empty path.
type Modules = BTreeMap<ModulePath, Module>;

/// What the sources of all crates have, without their tests.
#[derive(Default)]
pub struct House {
    /// By name of a type, the files that have it.
    names: BTreeMap<String, Vec<PathBuf>>,
    /// By folder.
    circles: BTreeMap<String, Vec<Circle>>,
    /// By file, also of [`OTHER_SOURCES`].
    pub functions: BTreeMap<String, Vec<Function>>,
}

impl House {
    pub fn read() -> anyhow::Result<House> {
        let mut house = House::default();
        for folder in fs::read_dir(root().join("crates"))? {
            house.add(&folder?.path().join("src"), true)?;
        }
        for source in OTHER_SOURCES {
            house.add(&root().join(source), false)?;
        }
        Ok(house)
    }

    /// Adds the crate whose sources are in this folder; only its functions, if the rest is not looked at.
    fn add(&mut self, source: &Path, is_whole: bool) -> anyhow::Result<()> {
        for file in ["lib.rs", "main.rs"].map(|name| source.join(name)).iter().filter(|file| file.exists()) {
            let mut modules = Modules::new();
            read_module(file, source, &mut Vec::new(), &mut modules)?;
            for module in modules.values() {
                let file = relative(&module.file);
                self.functions.insert(file.display().to_string(), module.functions.clone());
                for name in module.types.iter().filter(|_| is_whole) {
                    self.names.entry(name.clone()).or_default().push(file.clone());
                }
            }
            for (parent, circle) in find_circles(&modules).into_iter().filter(|_| is_whole) {
                let folder = relative(&parent.iter().fold(source.to_path_buf(), |path, name| path.join(name)));
                self.circles.entry(folder.display().to_string()).or_default().push(circle);
            }
        }
        Ok(())
    }

    /// By folder, how many files form a circle.
    pub fn circles(&self) -> impl Iterator<Item = (&str, usize)> {
        let of_folder = |(folder, circles)| {
            let circles: &Vec<Circle> = circles;
            let folder: &String = folder;
            circles.iter().map(move |circle| (folder.as_str(), circle.members.len()))
        };
        self.circles.iter().flat_map(of_folder)
    }

    /// Functions that are too long, longest first, each with its file.
    pub fn long_functions(&self) -> Vec<(&str, &Function)> {
        let all = self.functions.iter().flat_map(|(file, functions)| functions.iter().map(move |of| (&**file, of)));
        let mut long: Vec<(&str, &Function)> = all.filter(|(_, function)| function.lines > MOST_LINES).collect();
        long.sort_by_key(|(file, function)| (std::cmp::Reverse(function.lines), *file, function.line));
        long
    }
}

/// The sources of a crate without those of its tests, its root first, each with its text.
pub fn files_of_crate(name: &str) -> anyhow::Result<Vec<(PathBuf, String)>> {
    let source = root().join("crates").join(name).join("src");
    let mut modules = Modules::new();
    let mut files = Vec::new();
    for file in ["lib.rs", "main.rs"].map(|name| source.join(name)).iter().filter(|file| file.exists()) {
        read_module(file, &source, &mut Vec::new(), &mut modules)?;
        files.extend(std::mem::take(&mut modules).into_values().map(|module| module.file));
    }
    files.iter().map(|file| Ok((relative(file), fs::read_to_string(file)?))).collect()
}

/// Looks at all crates, and at ARCHITECTURE.md.
pub fn check(findings: &mut Vec<String>) -> anyhow::Result<()> {
    let listed = fs::read_to_string(root().join("xtask/exceptions.toml")).context("xtask/exceptions.toml")?;
    let exceptions: Exceptions = toml::from_str(&listed).context("xtask/exceptions.toml")?;
    let house = House::read()?;
    check_names(&house.names, &exceptions, findings);
    check_circles(&house.circles, &exceptions, findings);
    check_lengths(&house, &exceptions, findings);
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?;
    check_lists(
        &map,
        |path| fs::read_to_string(root().join(path)).ok().or(root().join(path).is_dir().then(String::new)),
        findings,
    );
    let mut identifiers = BTreeSet::new();
    let mut named = Vec::new();
    for folder in RUST_FOLDERS {
        read_names(&root().join(folder), &mut identifiers, &mut named)?;
    }
    check_comments(&identifiers, &named, &exceptions, findings);
    Ok(())
}

fn relative(path: &Path) -> PathBuf {
    path.strip_prefix(root()).unwrap_or(path).to_path_buf()
}

fn check_names(names: &BTreeMap<String, Vec<PathBuf>>, exceptions: &Exceptions, findings: &mut Vec<String>) {
    for (name, files) in names {
        let allowed = exceptions.names.get(name).copied().unwrap_or(1);
        if files.len() > allowed {
            let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
            findings.push(format!("{}: {} types are called {name}: {}", files[0], files.len(), files.join(", ")));
        }
    }
    for (name, allowed) in &exceptions.names {
        let found = names.get(name).map_or(0, Vec::len);
        if found < *allowed {
            findings.push(match found {
                0 | 1 => format!("xtask/exceptions.toml: the name {name} is no exception any more: take it out"),
                _ => format!("xtask/exceptions.toml: {found} types are called {name}, no longer {allowed}: say so"),
            });
        }
    }
}

fn check_circles(circles: &BTreeMap<String, Vec<Circle>>, exceptions: &Exceptions, findings: &mut Vec<String>) {
    let named = |members: &BTreeSet<String>| members.iter().cloned().collect::<Vec<String>>().join(", ");
    for (folder, circles) in circles {
        let listed = exceptions.circles.get(folder).map_or(&[][..], Vec::as_slice);
        for circle in circles.iter().filter(|circle| !listed.iter().any(|all| circle.members.is_subset(all))) {
            findings.push(format!("{folder}: {} use each other: {}", named(&circle.members), circle.uses.join("; ")));
        }
    }
    for (folder, listed) in &exceptions.circles {
        let found = circles.get(folder).map_or(&[][..], Vec::as_slice);
        for all in listed.iter().filter(|all| !found.iter().any(|circle| circle.members == **all)) {
            let left: Vec<String> = found
                .iter()
                .filter(|circle| circle.members.is_subset(all))
                .map(|circle| named(&circle.members))
                .collect();
            let left = if left.is_empty() { "nothing".to_string() } else { left.join(" and ") };
            findings.push(format!("xtask/exceptions.toml: {folder}: of {} {left} is left: say so", named(all)));
        }
    }
}

fn check_lengths(house: &House, exceptions: &Exceptions, findings: &mut Vec<String>) {
    let listed =
        |file: &str, name: &str| exceptions.lengths.get(file).and_then(|functions| functions.get(name)).copied();
    let mut found: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (file, Function { name, line, lines }) in house.long_functions() {
        found.insert((file, name));
        match listed(file, name) {
            None => findings.push(format!("{file}:{line}: {name} has {lines} lines; at most {MOST_LINES}")),
            Some(before) if before < *lines => {
                findings.push(format!("{file}:{line}: {name} has grown from {before} to {lines} lines"));
            }
            Some(before) if before > *lines => findings
                .push(format!("xtask/exceptions.toml: {file}: {name} has {lines} lines, no longer {before}: say so")),
            Some(_) => {}
        }
    }
    for (file, functions) in &exceptions.lengths {
        for name in functions.keys().filter(|name| !found.contains(&(&**file, &***name))) {
            findings.push(format!("xtask/exceptions.toml: {file}: {name} is no exception any more: take it out"));
        }
    }
}

/// `read` gives a file's text, of a folder an empty one.
fn check_lists(map: &str, read: impl Fn(&str) -> Option<String>, findings: &mut Vec<String>) {
    let (mut paths, mut text) = (0, String::new());
    for (at, line) in additions::lines(map).filter(|(_, line)| line.starts_with("- ")) {
        for word in line.split('`').skip(1).step_by(2) {
            if !additions::is_path(word) {
                if !contains_word(&text, word) {
                    findings.push(format!("ARCHITECTURE.md:{at}: {word} is not in the file before it"));
                }
                continue;
            }
            paths += 1;
            text = read(word).unwrap_or_else(|| {
                findings.push(format!("ARCHITECTURE.md:{at}: {word} does not exist"));
                String::new()
            });
        }
    }
    if paths == 0 {
        findings.push(format!("ARCHITECTURE.md: no list below \"{}\"", additions::HEADING));
    }
}

/// A name in a comment.
struct CommentName {
    file: PathBuf,
    line: usize,
    name: String,
}

/// Notes the identifiers of all Rust files below `folder`, and the names in comments of those in a `src` of crates or xtask.
fn read_names(folder: &Path, identifiers: &mut BTreeSet<String>, named: &mut Vec<CommentName>) -> anyhow::Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            if !path.ends_with("target") {
                read_names(&path, identifiers, named)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let tokens = text.parse().map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
            note_identifiers(tokens, identifiers);
            let file = relative(&path);
            let is_ours = file.starts_with("crates") || file.starts_with("xtask");
            if is_ours && file.components().any(|part| part.as_os_str() == "src") {
                let names = names_in_comments(&text).into_iter();
                named.extend(names.map(|(line, name)| CommentName { file: file.clone(), line, name }));
            }
        }
    }
    Ok(())
}

/// A doc comment is a literal among the tokens, any other comment is not among them.
fn note_identifiers(tokens: proc_macro2::TokenStream, identifiers: &mut BTreeSet<String>) {
    for token in tokens {
        match token {
            proc_macro2::TokenTree::Ident(name) => drop(identifiers.insert(name.to_string())),
            proc_macro2::TokenTree::Group(group) => note_identifiers(group.stream(), identifiers),
            _ => {}
        }
    }
}

/// The parts in backquotes of `//` comments that may be names of types, alone or in a path (`Exit::subject`), with their lines.
fn names_in_comments(text: &str) -> Vec<(usize, String)> {
    let mut names = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let comment =
            if line.starts_with("//") { Some(line) } else { line.split_once(" // ").map(|(_, comment)| comment) };
        for quoted in comment.unwrap_or_default().split('`').skip(1).step_by(2) {
            let is_path = quoted.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':'));
            let parts = quoted.split("::").filter(|part| is_path && may_be_type(part));
            names.extend(parts.map(|part| (at + 1, part.to_string())));
        }
    }
    names
}

fn may_be_type(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric())
        && name.contains(|c: char| c.is_ascii_lowercase())
}

fn check_comments(
    identifiers: &BTreeSet<String>,
    named: &[CommentName],
    exceptions: &Exceptions,
    findings: &mut Vec<String>,
) {
    let mut needed = BTreeSet::new();
    for CommentName { file, line, name } in named.iter().filter(|named| !identifiers.contains(&named.name)) {
        needed.insert(name.clone());
        if !exceptions.comments.values().any(|names| names.contains(name)) {
            findings.push(format!("{}:{line}: nothing is called {name}", file.display()));
        }
    }
    for name in exceptions.comments.values().flatten().filter(|name| !needed.contains(*name)) {
        findings.push(format!("xtask/exceptions.toml: the comments' {name} is no exception any more: take it out"));
    }
}

/// Reads the module at `path`, whose file is `file` and whose children are in `folder`, and all below it.
fn read_module(file: &Path, folder: &Path, path: &mut ModulePath, modules: &mut Modules) -> anyhow::Result<()> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let parsed = syn::parse_file(&text).with_context(|| file.display().to_string())?;
    let mut reader = Reader::new(file, path);
    reader.visit_file(&parsed);
    modules.insert(path.clone(), reader.module);
    for name in reader.children {
        let files = [folder.join(format!("{name}.rs")), folder.join(&name).join("mod.rs")];
        let Some(file) = files.iter().find(|file| file.exists()) else { continue };
        path.push(name.clone());
        read_module(file, &folder.join(name), path, modules)?;
        path.pop();
    }
    Ok(())
}

/// Goes through a file and notes what a [`Module`] has.
struct Reader {
    module: Module,
    path: ModulePath,
    /// Modules within the file.
    inside: ModulePath,
    /// Modules that have files of their own.
    children: Vec<String>,
    /// Types and functions around a function.
    around: Vec<String>,
}

impl Reader {
    fn new(file: &Path, path: &[String]) -> Reader {
        Reader {
            module: Module { file: file.to_path_buf(), ..Module::default() },
            path: path.to_vec(),
            inside: Vec::new(),
            children: Vec::new(),
            around: Vec::new(),
        }
    }

    /// Looks at what is within something of this name.
    fn within(&mut self, name: String, look: impl FnOnce(&mut Reader)) {
        self.around.push(name);
        look(self);
        self.around.pop();
    }

    fn note_function(&mut self, signature: &syn::Signature, body: &syn::Block, look: impl FnOnce(&mut Reader)) {
        let (first, last) = (signature.fn_token.span.start().line, body.brace_token.span.close().end().line);
        let name = signature.ident.to_string();
        let whole: Vec<&str> = self.inside.iter().chain(&self.around).chain([&name]).map(String::as_str).collect();
        self.module.functions.push(Function { name: whole.join("::"), line: first, lines: last - first + 1 });
        self.within(name, look);
    }

    /// A path from the crate's root on; `None` if it leads out of the crate, or is of a name that is declared here.
    fn absolute(&self, path: &[String]) -> Option<ModulePath> {
        let mut whole: ModulePath = self.path.iter().chain(&self.inside).cloned().collect();
        let mut rest = path;
        while let Some((first, others)) = rest.split_first() {
            match first.as_str() {
                "crate" => whole.clear(),
                "self" => {}
                "super" => drop(whole.pop()?),
                _ => break,
            }
            rest = others;
        }
        whole.extend_from_slice(rest);
        (rest.len() < path.len()).then_some(whole)
    }

    fn note_use(&mut self, tree: &syn::UseTree, before: &mut ModulePath) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.note_use(&path.tree, before);
                before.pop();
            }
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.note_use(tree, before)),
            syn::UseTree::Name(name) => self.note_used(before, &name.ident, &name.ident),
            syn::UseTree::Rename(rename) => self.note_used(before, &rename.ident, &rename.rename),
            syn::UseTree::Glob(glob) => {
                self.note_path(before, glob.star_token.span);
                self.module.passed_on_whole.extend(self.target(before));
            }
        }
    }

    fn note_used(&mut self, before: &[String], name: &syn::Ident, here: &syn::Ident) {
        let path = [before, &[name.to_string()]].concat();
        self.note_path(&path, here.span());
        self.module.passed_on.extend(self.target(&path).map(|from| (here.to_string(), from)));
    }

    fn note_path(&mut self, path: &[String], at: proc_macro2::Span) {
        self.module.used.extend(self.absolute(path).map(|path| (path, at.start().line)));
    }

    /// Where a path of a `use` leads, which may name a child without `self`.
    fn target(&self, path: &[String]) -> Option<ModulePath> {
        self.absolute(path).or_else(|| self.absolute(&[&["self".to_string()], path].concat()))
    }

    fn note_type(&mut self, visibility: &syn::Visibility, name: &syn::Ident) {
        if !matches!(visibility, syn::Visibility::Inherited) {
            self.module.types.insert(name.to_string());
        }
    }

    /// Paths in the tokens of a macro, which are no syntax yet.
    fn note_tokens(&mut self, tokens: proc_macro2::TokenStream) {
        let mut path: ModulePath = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                proc_macro2::TokenTree::Ident(name) => {
                    if colons != 2 {
                        path.clear();
                    }
                    path.push(name.to_string());
                    // The longest of them counts, and the shorter ones lead to the same module or to one above.
                    self.note_path(&path, name.span());
                    colons = 0;
                }
                proc_macro2::TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                proc_macro2::TokenTree::Group(group) => {
                    self.note_tokens(group.stream());
                    colons = 0;
                }
                _ => colons = 0,
            }
        }
    }
}

/// Whether something is there for tests only.
pub fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => list.tokens.to_string() == "test",
        meta => meta.path().is_ident("test"),
    })
}

/// The attributes of an item, and how it is declared, if it is a type.
fn parts_of(item: &syn::Item) -> (&[syn::Attribute], Option<(&syn::Visibility, &syn::Ident)>) {
    use syn::Item as I;
    match item {
        I::Struct(item) => (&item.attrs, Some((&item.vis, &item.ident))),
        I::Enum(item) => (&item.attrs, Some((&item.vis, &item.ident))),
        I::Union(item) => (&item.attrs, Some((&item.vis, &item.ident))),
        I::Trait(item) => (&item.attrs, Some((&item.vis, &item.ident))),
        I::Type(item) => (&item.attrs, Some((&item.vis, &item.ident))),
        I::Use(item) => (&item.attrs, None),
        I::Mod(item) => (&item.attrs, None),
        I::Fn(item) => (&item.attrs, None),
        I::Impl(item) => (&item.attrs, None),
        I::Const(item) => (&item.attrs, None),
        I::Static(item) => (&item.attrs, None),
        _ => (&[], None),
    }
}

/// Whether an item is there for tests only.
pub fn is_test_item(item: &syn::Item) -> bool {
    is_test(parts_of(item).0)
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let (attributes, declared) = parts_of(item);
        if is_test(attributes) {
            return;
        }
        if let Some((visibility, name)) = declared {
            self.note_type(visibility, name);
        }
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let name = item.ident.to_string();
        if item.content.is_none() {
            self.children.push(name);
            return;
        }
        self.inside.push(name);
        visit::visit_item_mod(self, item);
        self.inside.pop();
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.note_function(&item.sig, &item.block, |reader| visit::visit_item_fn(reader, item));
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let of = match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
            _ => None,
        };
        let name = match item.trait_.as_ref().and_then(|(_, path, _)| path.segments.last()) {
            Some(of_trait) => format!("{} for {}", of_trait.ident, of.unwrap_or_default()),
            None => of.unwrap_or_default(),
        };
        self.within(name, |reader| visit::visit_item_impl(reader, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            self.note_function(&item.sig, &item.block, |reader| visit::visit_impl_item_fn(reader, item));
        }
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.within(item.ident.to_string(), |reader| visit::visit_item_trait(reader, item));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        match &item.default {
            Some(body) => self.note_function(&item.sig, body, |reader| visit::visit_trait_item_fn(reader, item)),
            None => visit::visit_trait_item_fn(self, item),
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.note_use(&item.tree, &mut Vec::new());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: ModulePath = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.note_path(&names, path.segments[0].ident.span());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.visit_path(&item.path);
        self.note_tokens(item.tokens.clone());
    }
}

/// The module in which what this path names is declared.
fn module_of(modules: &Modules, path: &[String], passes: usize) -> ModulePath {
    let len = (0..=path.len()).rev().find(|&len| modules.contains_key(&path[..len])).unwrap_or(0);
    let (here, module) = (path[..len].to_vec(), &modules[&path[..len]]);
    let Some(name) = path.get(len).filter(|_| passes > 0) else { return here };
    if let Some(from) = module.passed_on.get(name) {
        return module_of(modules, from, passes - 1);
    }
    let mut whole = module.passed_on_whole.iter().map(|from| {
        let path = [&from[..], std::slice::from_ref(name)].concat();
        module_of(modules, &path, passes - 1)
    });
    whole.find(|from| modules[from].types.contains(name)).unwrap_or(here)
}

/// Modules beside each other of which each leads to each other.
struct Circle {
    members: BTreeSet<String>,
    /// One use for each of its arrows.
    uses: Vec<String>,
}

/// The circles among the children of each parent that a folder is in.
fn find_circles(modules: &Modules) -> Vec<(ModulePath, Circle)> {
    // By parent, which child uses which, and where.
    let mut arrows: BTreeMap<ModulePath, BTreeMap<(String, String), String>> = BTreeMap::new();
    for (path, module) in modules {
        for (used, line) in &module.used {
            let target = module_of(modules, used, MAX_PASSES);
            let common = path.iter().zip(&target).take_while(|(a, b)| a == b).count();
            if let (Some(from), Some(to)) = (path.get(common), target.get(common)) {
                let arrow = arrows.entry(path[..common].to_vec()).or_default().entry((from.clone(), to.clone()));
                arrow.or_insert_with(|| format!("{}:{line} {from} uses {to}", relative(&module.file).display()));
            }
        }
    }
    let mut circles = Vec::new();
    for (parent, arrows) in arrows {
        let reached = |from: &str| {
            let (mut reached, mut next) = (BTreeSet::new(), vec![from.to_string()]);
            while let Some(at) = next.pop() {
                for (_, to) in arrows.keys().filter(|(from, _)| *from == at) {
                    if reached.insert(to.clone()) {
                        next.push(to.clone());
                    }
                }
            }
            reached
        };
        let children: BTreeSet<String> = arrows.keys().map(|(from, _)| from.clone()).collect();
        let all: BTreeMap<String, BTreeSet<String>> =
            children.into_iter().map(|child| (child.clone(), reached(&child))).collect();
        let leads = |from: &str, to: &str| all.get(from).is_some_and(|reached| reached.contains(to));
        let mut seen = BTreeSet::new();
        for child in all.keys() {
            let members: BTreeSet<String> =
                all.keys().filter(|other| leads(child, other) && leads(other, child)).cloned().collect();
            let is_folder = |name: &String| {
                let path = [&parent[..], std::slice::from_ref(name)].concat();
                modules.keys().any(|other| other.len() > path.len() && other.starts_with(&path))
            };
            let most = if members.iter().any(is_folder) { 1 } else { MOST_FILES };
            if members.len() <= most || !seen.insert(members.clone()) {
                continue;
            }
            let inside = arrows.iter().filter(|((from, to), _)| members.contains(from) && members.contains(to));
            let uses = inside.map(|(_, place)| place.clone()).collect();
            circles.push((parent.clone(), Circle { members, uses }));
        }
    }
    circles
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate of these files, each with its module path.
    fn modules(files: &[(&str, &str)]) -> Modules {
        let mut modules = Modules::new();
        for (path, text) in files {
            let path: ModulePath = path.split_terminator("::").map(String::from).collect();
            let mut reader = Reader::new(Path::new(""), &path);
            reader.visit_file(&syn::parse_file(text).expect("Rust"));
            modules.insert(path, reader.module);
        }
        modules
    }

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let found = find_circles(&modules(files));
        found.iter().map(|(parent, circle)| format!("{parent:?} {:?}", circle.members)).collect()
    }

    /// Takes seconds, where `cargo xtask tidy` makes all generated files first.
    #[test]
    fn the_house_is_as_it_should_be() {
        let mut findings = Vec::new();
        check(&mut findings).expect("the tree can be read");
        assert!(findings.is_empty(), "{}", findings.join("\n"));
    }

    #[test]
    fn a_circle_is_found_where_it_leaves_a_folder() {
        let root = ("", "mod a; mod b; pub use b::y::Y;");
        let a = ("a", "use crate::Y; pub struct A;");
        let b = ("b", "mod y; mod z;");
        let y = ("b::y", "pub struct Y;");
        let back = |text| ("b::z", text);
        let found = ["[] {\"a\", \"b\"}"];
        for uses in [
            "use crate::a::A;",
            "use crate::a::*;",
            "use super::super::a::A;",
            "fn f(_: crate::a::A) {}",
            "fn f() { m!(a: crate::a::A) }",
        ] {
            assert_eq!(circles(&[root, a, b, y, back(uses)]), found, "{uses}");
        }
        for uses in ["", "#[cfg(test)] mod tests { use crate::a::A; }", "use super::y::Y;", "use other::a::A;"] {
            assert!(circles(&[root, a, b, y, back(uses)]).is_empty(), "{uses}");
        }
    }

    #[test]
    fn files_beside_each_other_may_use_each_other_and_what_their_parent_has() {
        let files = [
            ("", "mod a; mod b; pub struct Root;"),
            ("a", "use crate::b::B; use crate::Root; pub struct A;"),
            ("b", "use crate::a::A; pub struct B;"),
        ];
        assert!(circles(&files).is_empty());
        // In a folder the same, and from outside it is one.
        let inner =
            [("", "mod f;"), ("f", "mod a; mod b;"), ("f::a", "use super::b::B;"), ("f::b", "use super::a::A;")];
        assert!(circles(&inner).is_empty());
    }

    #[test]
    fn types_that_only_their_file_may_name_have_names_of_their_own() {
        let text =
            "pub struct A; enum B {} pub(crate) type C = u8; #[cfg(test)] pub struct D; mod inside { pub trait E {} }";
        let modules = modules(&[("", text)]);
        let names: Vec<&String> = modules[&Vec::new()].types.iter().collect();
        assert_eq!(names, ["A", "C", "E"]);
    }

    #[test]
    fn exceptions_are_needed_and_not_too_many() {
        let names = BTreeMap::from([
            ("Twice".to_string(), vec![PathBuf::from("a.rs"), PathBuf::from("b.rs")]),
            ("Once".to_string(), vec![PathBuf::from("a.rs")]),
        ]);
        for (listed, found) in
            [("", 1), ("Twice = 2", 0), ("Twice = 3", 1), ("Twice = 2\nOnce = 2", 1), ("Twice = 2\nNone = 2", 1)]
        {
            let exceptions =
                toml::from_str(&format!("[names]\n{listed}\n[circles]\n[lengths]\n[comments]")).expect("TOML");
            let mut findings = Vec::new();
            check_names(&names, &exceptions, &mut findings);
            assert_eq!(findings.len(), found, "{listed}: {findings:?}");
        }
    }

    #[test]
    fn lengths_are_from_fn_to_the_closing_brace() {
        let text = "/// Doc.\n#[inline]\npub fn one() {}\nimpl<T> A<T> {\n fn two(\n  a: u8,\n ) {\n\n  // Why.\n  fn three() {\n  }\n }\n}\n\
                    mod m { impl B for A { fn four() {\n} } trait C { fn none(); fn five() {\n\n} } }\n\
                    #[test]\nfn six() {}\nimpl D { #[cfg(test)] fn seven() {} }";
        let modules = modules(&[("", text)]);
        let functions = modules[&Vec::new()].functions.iter();
        let found: Vec<_> = functions.map(|of| (&*of.name, of.line, of.lines)).collect();
        let expected = [
            ("one", 3, 1),
            ("A::two", 5, 8),
            ("A::two::three", 10, 2),
            ("m::B for A::four", 14, 2),
            ("m::C::five", 15, 3),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn long_functions_are_found_and_exceptions_of_them_shrink() {
        let function = |name: &str, lines| Function { name: name.to_string(), line: 1, lines };
        let functions = vec![function("short", MOST_LINES), function("long", MOST_LINES + 2)];
        let house = House { functions: BTreeMap::from([("a.rs".to_string(), functions)]), ..House::default() };
        for (listed, found) in [
            ("", 1),
            ("long = 72", 0),
            ("long = 71", 1),
            ("long = 73", 1),
            ("long = 72\nshort = 71", 1),
            ("long = 72\nnone = 71", 1),
        ] {
            let text = format!("[names]\n[circles]\n[comments]\n[lengths.\"a.rs\"]\n{listed}");
            let mut findings = Vec::new();
            check_lengths(&house, &toml::from_str(&text).expect("TOML"), &mut findings);
            assert_eq!(findings.len(), found, "{listed}: {findings:?}");
        }
    }

    #[test]
    fn what_the_lists_name_is_there() {
        let read = |path: &str| (path == "a/b.rs").then(|| "const ROWS: EventKind = rows!();".to_string());
        for (row, found) in [
            ("- `a/b.rs` `ROWS`", 0),
            ("- x: `a/b.rs` `const ROWS` `rows!`", 0),
            ("- `a/c.rs`", 1),
            ("- `a/b.rs` `LINES`", 1),
            ("- `a/b.rs` `Kind`", 1),
            ("- `a/b.rs` `const ROW`", 1),
            ("no list", 1),
        ] {
            let mut findings = Vec::new();
            check_lists(&format!("# A\n{}\n\n{row}\n## Else\n- `not/this`", additions::HEADING), read, &mut findings);
            assert_eq!(findings.len(), found, "{row}: {findings:?}");
        }
    }

    #[test]
    fn types_that_comments_name_are_there() {
        let code = "/// Of `Gone`.\nstruct Here; // of a `Lost`\nconst TEXT: &str = \"Said\"; m! { a: InMacro }";
        let mut identifiers = BTreeSet::new();
        note_identifiers(code.parse().expect("Rust"), &mut identifiers);
        for (comment, missing) in [
            ("//! As `Here`, [`Here::new`] and `InMacro`.", &[][..]),
            ("/// `HERE`, `here`, `Gone.field`, `Gone with it`, `TP_Gone`, Gone.", &[]),
            ("let gone = \"`Gone`\";", &[]),
            ("    /// Of [`Gone`](crate::Gone).", &["Gone"]),
            ("let a = 1; // `Here` or `Gone::Here`", &["Gone"]),
            ("// `Here::Gone`, `Lost`, `Said`", &["Gone", "Lost", "Said"]),
        ] {
            let named = names_in_comments(comment).into_iter();
            let missed: Vec<String> = named.map(|(_, name)| name).filter(|name| !identifiers.contains(name)).collect();
            assert_eq!(missed, missing, "{comment}");
        }
    }

    #[test]
    fn names_of_others_are_needed_as_exceptions() {
        let named = [CommentName { file: PathBuf::from("a.rs"), line: 3, name: "Theirs".to_string() }];
        for (listed, found) in [("", 1), ("Java = [\"Theirs\"]", 0), ("Java = [\"Theirs\", \"Ours\"]", 1)] {
            let exceptions =
                toml::from_str(&format!("[names]\n[circles]\n[lengths]\n[comments]\n{listed}")).expect("TOML");
            let mut findings = Vec::new();
            check_comments(&BTreeSet::from(["Ours".to_string()]), &named, &exceptions, &mut findings);
            assert_eq!(findings.len(), found, "{listed}: {findings:?}");
        }
    }
}
