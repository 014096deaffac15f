//! Inside a crate, no file needs itself through others: what two files need lies in a third, so that each
//! can be read, and moved, after what it stands on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::tree::tidy;

/// A module by its path from the root of its crate.
type Module = Vec<String>;

/// What a file says of others.
#[derive(Default)]
struct File {
    /// The paths that it names, each from the module that names it.
    named: Vec<(Module, Vec<String>)>,
    /// Names that it shows to others, and their paths: no need of its own where they lie below it.
    shown: Vec<(String, Vec<String>)>,
    /// The words that it uses, those behind `::` aside.
    words: BTreeSet<String>,
    /// Names that `use` brings in, and where from; modules below, or others if `pub`, see them here too.
    brought: BTreeMap<String, Vec<String>>,
    /// Modules all of whose names others see here.
    globs: Vec<Vec<String>>,
    /// What is defined at its top.
    defined: BTreeSet<String>,
    /// Modules that are there for tests only.
    tests: Vec<Module>,
}

/// One `use`, path by path: the path, the name that it brings in (`*` for all), and whether it is `pub`.
type Use = (Vec<String>, String, bool);

/// Reads the tokens of a module.
struct Reader {
    file: File,
}

impl Reader {
    /// Tokens at the top of `module`, or inside anything there if not `top`.
    fn read(&mut self, tokens: TokenStream, module: &Module, top: bool) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            if is_test_attribute(&tokens[at..]) {
                at = self.skip_item(&tokens, at + 2, module);
                continue;
            }
            let word = word(&tokens, at);
            let is_path = at > 1 && tokens[at - 2..at].iter().all(|token| is_punct(token, ':'));
            match word.as_deref() {
                Some("use") if !is_path => {
                    let end = end_of_use(&tokens, at);
                    let public = is_public(&tokens[..at]);
                    let mut uses = Vec::new();
                    use_tree(&tokens[at + 1..end], Vec::new(), public, &mut uses);
                    uses.into_iter().for_each(|one| self.bring(one, module));
                    at = end;
                }
                Some("mod") if matches!(tokens.get(at + 2), Some(TokenTree::Group(_))) => {
                    let Some(TokenTree::Group(body)) = tokens.get(at + 2) else { continue };
                    let mut inner = module.clone();
                    inner.extend(self::word(&tokens, at + 1));
                    self.read(body.stream(), &inner, false);
                    at += 3;
                }
                Some(_) => {
                    let before = at.checked_sub(1).and_then(|at| self::word(&tokens, at));
                    let defines = before.as_deref().is_some_and(is_definition);
                    let is_member = is_path || at > 0 && is_punct(&tokens[at - 1], '.');
                    match word {
                        Some(word) if defines && top => drop(self.file.defined.insert(word)),
                        Some(word) if !defines && !is_member => drop(self.file.words.insert(word)),
                        _ => {}
                    }
                    let (path, end) = path(&tokens, at);
                    if path.len() > 1 && !is_path {
                        self.file.named.push((module.clone(), path));
                    }
                    at = end;
                }
                None => {
                    if let TokenTree::Group(group) = &tokens[at] {
                        self.read(group.stream(), module, false);
                    }
                    at += 1;
                }
            }
        }
    }

    fn bring(&mut self, (path, name, public): Use, module: &Module) {
        if name == "*" {
            self.file.globs.extend(public.then(|| path.clone()));
        } else {
            self.file.brought.insert(name.clone(), path.clone());
        }
        match public {
            true => self.file.shown.push((name, path)),
            false => self.file.named.push((module.clone(), path)),
        }
    }

    /// The place after the item at `at`, which is there for tests only.
    fn skip_item(&mut self, tokens: &[TokenTree], mut at: usize, module: &Module) -> usize {
        let is_use = |at: usize| word(tokens, at).as_deref() == Some("use");
        let mut in_use = false;
        while let Some(token) = tokens.get(at) {
            in_use |= is_use(at);
            if word(tokens, at).as_deref() == Some("mod") {
                let mut name = module.clone();
                name.extend(word(tokens, at + 1));
                self.file.tests.push(name);
            }
            at += 1;
            let body = matches!(token, TokenTree::Group(g) if g.delimiter() == Delimiter::Brace);
            if is_punct(token, ';') || body && !in_use {
                break;
            }
        }
        at
    }
}

fn word(tokens: &[TokenTree], at: usize) -> Option<String> {
    match tokens.get(at) {
        Some(TokenTree::Ident(word)) => Some(word.to_string()),
        _ => None,
    }
}

fn is_punct(token: &TokenTree, char: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == char)
}

/// Whether `#[cfg(test)]`, or `#[cfg(all(test, …))]`, stands here.
fn is_test_attribute(tokens: &[TokenTree]) -> bool {
    let [hash, TokenTree::Group(attribute), ..] = tokens else { return false };
    let text: String = attribute.stream().to_string().split_whitespace().collect();
    is_punct(hash, '#') && (text == "cfg(test)" || text.starts_with("cfg(all(test,"))
}

/// Whether the item that begins behind `before` is `pub`, or `pub(…)`.
fn is_public(before: &[TokenTree]) -> bool {
    let last = match before {
        [rest @ .., TokenTree::Group(group)] if group.delimiter() == Delimiter::Parenthesis => rest,
        all => all,
    };
    last.last().is_some_and(|token| token.to_string() == "pub")
}

fn is_definition(word: &str) -> bool {
    ["fn", "struct", "enum", "trait", "type", "const", "static", "union", "mod"].contains(&word)
}

fn end_of_use(tokens: &[TokenTree], at: usize) -> usize {
    let length = tokens[at..].iter().position(|token| is_punct(token, ';'));
    length.map_or(tokens.len(), |length| at + length)
}

/// The path that begins at `at`, and the place after it.
fn path(tokens: &[TokenTree], mut at: usize) -> (Vec<String>, usize) {
    let mut path: Vec<String> = word(tokens, at).into_iter().collect();
    at += 1;
    while let [a, b, TokenTree::Ident(next), ..] = &tokens[at.min(tokens.len())..]
        && is_punct(a, ':')
        && is_punct(b, ':')
    {
        path.push(next.to_string());
        at += 3;
    }
    (path, at)
}

/// The paths of a tree of `use` below `prefix`.
fn use_tree(tokens: &[TokenTree], prefix: Vec<String>, public: bool, out: &mut Vec<Use>) {
    let mut path = prefix;
    let mut name = None;
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token {
            TokenTree::Ident(ident) if ident == "as" => {
                name = word(tokens, at + 1);
                at += 1;
            }
            TokenTree::Ident(ident) => path.push(ident.to_string()),
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                for one in inner.split(|token| is_punct(token, ',')).filter(|one| !one.is_empty()) {
                    use_tree(one, path.clone(), public, out);
                }
                return;
            }
            token if is_punct(token, '*') => name = Some("*".to_owned()),
            _ => {}
        }
        at += 1;
    }
    // `use a::{self}` brings in `a`.
    if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
        path.pop();
    }
    let name = name.or_else(|| path.last().cloned()).unwrap_or_default();
    out.push((path, name, public));
}

/// The files of a crate by their modules.
struct Crate(BTreeMap<Module, File>);

impl Crate {
    /// Reads the crate whose sources lie in `folder`.
    fn read(folder: &Path) -> Self {
        let mut paths = Vec::new();
        sources(folder, &mut paths);
        let mut files = BTreeMap::new();
        for path in paths.iter().filter(|path| !path.ends_with("main.rs")) {
            let relative = path.strip_prefix(folder).unwrap().with_extension("");
            let parts = relative.iter().map(|part| part.to_str().unwrap().to_owned());
            let mut module: Module = parts.collect();
            if module.last().is_some_and(|name| name == "mod" || name == "lib") {
                module.pop();
            }
            let text = fs::read_to_string(path).unwrap();
            let tokens: TokenStream = text.parse().unwrap_or_else(|error| {
                panic!("{} is no Rust: {error}", path.display());
            });
            let mut reader = Reader { file: File::default() };
            reader.read(tokens, &module, true);
            files.insert(module, reader.file);
        }
        let tests: Vec<Module> = files.values().flat_map(|file| file.tests.clone()).collect();
        files.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
        Self(files)
    }

    /// The file that a path leads to, from `module`; `None` if it leads out of the crate.
    fn leads_to(&self, module: &[String], path: &[String], depth: usize) -> Option<&Module> {
        // A name may be brought in under itself.
        if depth > 8 {
            return None;
        }
        let (first, rest) = path.split_first()?;
        let (from, rest) = match first.as_str() {
            "crate" => (Vec::new(), rest),
            "self" => (module.to_vec(), rest),
            "super" => {
                let ups = path.iter().take_while(|part| *part == "super").count();
                (module[..module.len().checked_sub(ups)?].to_vec(), &path[ups..])
            }
            name => {
                let own = self.file_of(module);
                let below = [own.as_slice(), &[name.to_owned()]].concat();
                match self.0.get(own).and_then(|file| file.brought.get(name)) {
                    _ if self.0.contains_key(&below) => (own.clone(), path),
                    Some(brought) if brought.first() != Some(first) => {
                        let path = [brought.as_slice(), rest].concat();
                        return self.leads_to(own, &path, depth + 1);
                    }
                    _ => return None,
                }
            }
        };
        let mut module = from;
        for (i, part) in rest.iter().enumerate() {
            let below = [module.as_slice(), std::slice::from_ref(part)].concat();
            if self.0.contains_key(&below) {
                module = below;
                continue;
            }
            let own = self.file_of(&module).clone();
            let Some(file) = self.0.get(&own) else { break };
            if let Some(brought) = file.brought.get(part) {
                let path = [brought.as_slice(), &rest[i + 1..]].concat();
                return self.leads_to(&own, &path, depth + 1).or_else(|| self.key(&own));
            }
            let shown = file.globs.iter().filter_map(|glob| self.leads_to(&own, glob, depth + 1));
            let defines = |module: &&Module| self.0[*module].defined.contains(part);
            return shown.into_iter().find(defines).or_else(|| self.key(&own));
        }
        self.key(self.file_of(&module))
    }

    fn key(&self, module: &Module) -> Option<&Module> {
        self.0.get_key_value(module).map(|(module, _)| module)
    }

    /// The module of the file that a module is written in.
    fn file_of(&self, module: &[String]) -> &Module {
        let mut length = module.len();
        loop {
            if let Some((module, _)) = self.0.get_key_value(&module[..length]) {
                return module;
            }
            length = length.checked_sub(1).expect("a crate has a root");
        }
    }

    /// Which files each file needs.
    fn needs(&self) -> BTreeMap<&Module, BTreeSet<&Module>> {
        let each = self.0.iter().map(|(own, file)| {
            let named = file.named.iter();
            let needed = named.filter_map(|(module, path)| self.leads_to(module, path, 0));
            let shown = file.shown.iter().filter_map(|(name, path)| {
                let module = self.leads_to(own, path, 0)?;
                (!module.starts_with(own) || file.words.contains(name)).then_some(module)
            });
            (own, needed.chain(shown).filter(|module| *module != own).collect())
        });
        each.collect()
    }

    /// All circles: the files of each, which need each other, directly or not.
    fn circles(&self) -> Vec<BTreeSet<&Module>> {
        let needs = self.needs();
        let reached: BTreeMap<&Module, BTreeSet<&Module>> =
            needs.keys().map(|module| (*module, reached(module, &needs))).collect();
        let circle = |module: &Module| -> BTreeSet<&Module> {
            let others = reached[module].iter().copied();
            others.filter(|other| reached[other].contains(module)).collect()
        };
        let circles: BTreeSet<_> = needs.keys().map(|module| circle(module)).collect();
        circles.into_iter().filter(|circle| !circle.is_empty()).collect()
    }
}

/// All that a file needs, directly or not.
fn reached<'m>(
    module: &Module,
    needs: &BTreeMap<&'m Module, BTreeSet<&'m Module>>,
) -> BTreeSet<&'m Module> {
    let mut all = BTreeSet::new();
    let mut next: Vec<&Module> = needs[module].iter().copied().collect();
    while let Some(module) = next.pop() {
        if all.insert(module) {
            next.extend(&needs[module]);
        }
    }
    all
}

/// The sources of a crate, without those of the crates that lie inside it.
pub fn sources(folder: &Path, out: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            let other = path.join("Cargo.toml").exists();
            let aside = ["tests", "benches", "target"].iter().any(|name| path.ends_with(name));
            if !other && !aside {
                sources(&path, out);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            out.push(path);
        }
    }
}

/// The folders of the sources of all crates of the workspace.
pub fn crates() -> Vec<PathBuf> {
    let mut manifests = Vec::new();
    for dir in ["src", "udfs"] {
        tidy::files(&tidy::root().join(dir), "toml", &mut manifests);
    }
    manifests.push(tidy::root().join("Cargo.toml"));
    let folders = manifests.iter().filter(|path| path.ends_with("Cargo.toml")).map(|manifest| {
        let folder = manifest.parent().unwrap();
        let sources = folder.join("src");
        if sources.exists() { sources } else { folder.to_owned() }
    });
    folders.collect()
}

fn name(module: &Module) -> String {
    if module.is_empty() { "(root)".to_owned() } else { module.join("::") }
}

#[test]
fn no_file_needs_itself_through_others() {
    let crates = crates();
    assert!(crates.len() > 4, "the tree has moved: {crates:?}");
    let mut errors = Vec::new();
    for folder in crates {
        let relative = folder.strip_prefix(tidy::root()).unwrap().display().to_string();
        let tree = Crate::read(&folder);
        let needs = tree.needs();
        for circle in tree.circles() {
            let names: Vec<String> = circle.iter().map(|module| name(module)).collect();
            let arrows = circle.iter().flat_map(|from| {
                let to = needs[from].intersection(&circle);
                to.map(|to| format!("    {} -> {}", name(from), name(to)))
            });
            let arrows: Vec<String> = arrows.collect();
            errors.push(format!("({relative:?}, &{names:?})\n{}", arrows.join("\n")));
        }
    }
    assert!(
        errors.is_empty(),
        "files that need each other; move what both need to a file of its own:\n{}",
        errors.join("\n")
    );
}

#[test]
fn circles_are_found_through_uses_paths_and_re_exports() {
    let circles = |files: &[(&str, &str)]| -> Vec<Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let tree = Crate::read(folder.path());
        let circles = tree.circles();
        circles.iter().map(|circle| circle.iter().map(|module| name(module)).collect()).collect()
    };
    let root = ("lib.rs", "mod a; mod b; mod c; mod d;");
    let one = vec![vec!["a".to_owned(), "b".to_owned()]];
    let none: Vec<Vec<String>> = Vec::new();
    let b = ("b.rs", "use crate::a::A; pub struct B(A);");
    let check = |a: &str| circles(&[root, ("a.rs", a), b]);
    assert_eq!(check("use crate::b::B; pub struct A;"), one);
    assert_eq!(check("pub struct A; fn f() { super::b::g::<u8>(vec![1]) }"), one);
    assert_eq!(check("pub struct A; fn f() { format!(\"{}\", crate::b::g()) }"), one);
    assert_eq!(check("use crate::{b::{self, B as C}, c}; pub struct A;"), one);
    assert_eq!(check("use crate::b; pub struct A; fn f() { b::g() }"), one);
    // Comments, texts and tests do not need anything.
    assert_eq!(check("//! crate::b::B\npub struct A; const T: &str = \"crate::b::B\";"), none);
    assert_eq!(check("pub struct A; #[cfg(test)] mod tests { use crate::b::B; }"), none);
    assert_eq!(check("pub struct A; #[cfg(test)] use crate::b::{B, C}; fn f() {}"), none);
    assert_eq!(check("use std::b::B; pub struct A;"), none);

    // Who only shows what lies below it is no part of a circle, but shows the way to it.
    let a = ("d/x.rs", "use crate::d::Y; pub struct X;");
    let shows = ("d/mod.rs", "mod x; mod y; pub use x::X; pub use y::*;");
    assert_eq!(circles(&[root, shows, a, ("d/y.rs", "pub struct Y;")]), none);
    let circle = vec![vec!["d::x".to_owned(), "d::y".to_owned()]];
    assert_eq!(circles(&[root, shows, a, ("d/y.rs", "use super::X; pub struct Y;")]), circle);
    let uses = ("d/mod.rs", "mod x; mod y; pub use y::Y; pub use x::X; pub struct Z(X);");
    let zs = circles(&[
        root,
        uses,
        ("d/x.rs", "use super::Z; pub struct X;"),
        ("d/y.rs", "pub struct Y;"),
    ]);
    assert_eq!(zs, vec![vec!["d".to_owned(), "d::x".to_owned()]]);
    let through = [root, shows, a, ("d/y.rs", "pub struct Y; fn f(x: super::x::X) {}")];
    assert_eq!(circles(&through), circle);
}
