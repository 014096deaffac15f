//! The emulator's program: compiled once from the sources in the library, then kept.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Condvar, Mutex, OnceLock};

use proofmill_engine::cuda::{COMMON, SOURCES};
use sha2::{Digest, Sha256};

/// How sources are compiled; how much they are optimised is said apart.
const FLAGS: &str = "-std=c++17 -x c++ -DEMU -w -g1 -ffp-contract=off \
    -fno-omit-frame-pointer";
/// What is looked for while kernels run.
const SANITIZERS: &str = "-fsanitize=address \
    -fsanitize=alignment,bounds,shift,signed-integer-overflow,integer-divide-by-zero \
    -fno-sanitize-recover=undefined";
/// Compilers at work at the same time.
const JOBS: usize = 2;

/// Where the emulator's own files lie.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernels/emulator")
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// What a compiler does its best for.
#[derive(Clone, Copy)]
enum Effort {
    /// Code that runs fast, and is not watched.
    Fast,
    Watched,
    Quick,
}

/// A C++ compiler that was found.
#[derive(Clone, Debug)]
pub struct Compiler {
    command: String,
    sanitizers: Vec<String>,
    /// All that the result depends on beside the text.
    identity: Vec<u8>,
}

impl Compiler {
    /// The first that there is of `$CXX`, `c++`, `g++` and `clang++`; if there is none, a message for each test
    /// that asks, so that they are counted.
    pub fn find() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<Compiler>> = OnceLock::new();
        let found = FOUND.get_or_init(Self::look).as_ref();
        if found.is_none() {
            let test = std::thread::current();
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED: {}: no C++ compiler ($CXX, c++, g++, clang++), so no emulated GPU",
                test.name().unwrap_or("a test")
            );
        }
        found
    }

    fn look() -> Option<Self> {
        let named = std::env::var("CXX").ok();
        let commands = named.iter().map(String::as_str).chain(["c++", "g++", "clang++"]);
        commands.filter(|command| !command.is_empty()).find_map(|command| {
            let version = Command::new(command).arg("--version").output().ok()?;
            let gcc = String::from_utf8_lossy(&version.stdout).contains("Free Software Foundation");
            let mut sanitizers = words(SANITIZERS);
            if gcc {
                sanitizers.push("-fsanitize-sections=emu_shared".to_owned());
            }
            let mut identity = version.stdout;
            identity.extend([FLAGS, SANITIZERS].concat().bytes());
            let files = fs::read_dir(folder()).ok()?.flatten().map(|file| file.path());
            let mut headers: Vec<_> =
                files.filter(|path| path.extension() == Some("h".as_ref())).collect();
            headers.sort();
            for header in headers {
                identity.extend(fs::read(header).ok()?);
            }
            Some(Self { command: command.to_owned(), sanitizers, identity })
        })
    }

    /// The program made of `units`, see [`unit`]; what was compiled before is not again. Fails with the
    /// compiler's words.
    pub fn program(&self, units: &[Unit]) -> Result<PathBuf, String> {
        let objects = self.objects(units)?;
        let names: Vec<_> = objects.iter().map(|path| path.to_string_lossy()).collect();
        self.made("program", names.join("\n").as_bytes(), |out| self.link(&objects, out))
    }

    /// The program made of `units` but for one, which is `changed`. It and its parts lie in `folder`.
    pub fn variant(
        &self,
        units: &[Unit],
        changed: &Unit,
        folder: &Path,
    ) -> Result<PathBuf, String> {
        let same: Vec<Unit> =
            units.iter().filter(|unit| unit.name != changed.name).cloned().collect();
        let mut objects = self.objects(&same)?;
        let [text, object, program] =
            ["changed.cpp", "changed.o", "program"].map(|name| folder.join(name));
        fs::write(&text, &changed.text).map_err(|error| error.to_string())?;
        let _turn = Turn::take();
        run(self.compile(&text, &object, Effort::Quick))?;
        objects.push(object);
        run(self.link(&objects, &program))?;
        Ok(program)
    }

    fn objects(&self, units: &[Unit]) -> Result<Vec<PathBuf>, String> {
        let own = |name: &str| {
            let text = fs::read_to_string(folder().join(name));
            let text = text.map_err(|error| format!("{name}: {error}"))?;
            Ok(Unit { name: name.to_owned(), text })
        };
        let own =
            ["server.cpp", "tile.cpp"].map(own).into_iter().collect::<Result<Vec<_>, String>>()?;
        std::thread::scope(|scope| {
            let all = units.iter().chain(&own);
            let running: Vec<_> = all.map(|unit| scope.spawn(|| self.object(unit))).collect();
            running.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
        })
    }

    fn object(&self, unit: &Unit) -> Result<PathBuf, String> {
        let bytes = unit.text.as_bytes();
        let text = self.kept("cpp", bytes);
        write_once(&text, bytes).map_err(|error| format!("{}: {error}", text.display()))?;
        let effort = if unit.name == "tile.cpp" { Effort::Fast } else { Effort::Watched };
        let made = self.made("o", bytes, |out| self.compile(&text, out, effort));
        made.map_err(|error| format!("{} does not compile:\n{error}", unit.name))
    }

    fn compile(&self, text: &Path, out: &Path, effort: Effort) -> Command {
        let mut command = Command::new(&self.command);
        command.args(words(FLAGS)).arg("-I").arg(folder()).arg("-c").arg(text).arg("-o").arg(out);
        match effort {
            Effort::Fast => command.arg("-O2"),
            Effort::Watched => command.arg("-O1").args(&self.sanitizers),
            Effort::Quick => command.arg("-O0").args(&self.sanitizers),
        };
        command
    }

    fn link(&self, objects: &[PathBuf], out: &Path) -> Command {
        let mut command = Command::new(&self.command);
        command.arg("-fsanitize=address,undefined").arg("-o").arg(out).args(objects);
        command
    }

    /// Where what is made of `content` lies.
    fn kept(&self, kind: &str, content: &[u8]) -> PathBuf {
        let mut digest = Sha256::new();
        digest.update(&self.identity);
        digest.update([0]);
        digest.update(content);
        let name: String = digest.finalize().iter().take(12).map(|b| format!("{b:02x}")).collect();
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("emulator-{name}.{kind}"))
    }

    /// The file that `command` makes of `content`, unless it is there. It appears at once and whole,
    /// whatever else makes it at the same time.
    fn made(
        &self,
        kind: &str,
        content: &[u8],
        command: impl FnOnce(&Path) -> Command,
    ) -> Result<PathBuf, String> {
        let path = self.kept(kind, content);
        if path.exists() {
            return Ok(path);
        }
        let _turn = Turn::take();
        if path.exists() {
            return Ok(path);
        }
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let own = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).map_err(failed)?;
        let own = own.into_temp_path();
        run(command(&own))?;
        own.persist(&path).map_err(|error| failed(error.error))?;
        Ok(path)
    }
}

/// Waits for a compiler; fails with its words.
fn run(mut command: Command) -> Result<(), String> {
    let Output { status, stderr, .. } = command.output().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&stderr).into_owned()) }
}

fn write_once(path: &Path, text: &[u8]) -> std::io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    let mut own = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR"))?;
    own.write_all(text)?;
    own.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// A source as the emulator compiles it.
#[derive(Clone, Debug)]
pub struct Unit {
    pub name: String,
    /// Its text with all that stands before it.
    pub text: String,
}

/// A source after `common`.
pub fn unit(common: &str, name: &str, text: &str) -> Unit {
    // In an unnamed namespace shared variables of inline functions can be collected in a section.
    let text = format!(
        "#include \"emu.h\"\nnamespace {{\n#line 1 \"common.cu\"\n{common}\n#line 1 \"{name}\"\n\
         {text}\n}}\n"
    );
    Unit { name: name.to_owned(), text }
}

/// All sources of the library.
pub fn units() -> Vec<Unit> {
    SOURCES.iter().map(|&(name, text)| unit(COMMON, name, text)).collect()
}

/// The right to run a compiler.
struct Turn;

static TURNS: (Mutex<usize>, Condvar) = (Mutex::new(JOBS), Condvar::new());

impl Turn {
    fn take() -> Self {
        let free = TURNS.0.lock().expect("no thread panics with the lock");
        *TURNS.1.wait_while(free, |free| *free == 0).expect("no thread panics with the lock") -= 1;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *TURNS.0.lock().expect("no thread panics with the lock") += 1;
        TURNS.1.notify_one();
    }
}
