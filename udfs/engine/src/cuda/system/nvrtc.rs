//! Compiling the kernels for one architecture, where NVIDIA's compiler is installed.

use std::env;
use std::ffi::{CStr, CString, OsString};
use std::panic;
use std::path::Path;

use cudarc::nvrtc::result::{self, NvrtcError};
use cudarc::nvrtc::sys;

use super::failure::panicked;
use super::locate;
use super::source::{OPTIONS, program};

/// NVRTC, opened.
#[derive(Debug)]
pub(super) struct Compiler {
    version: (u32, u32),
}

impl Compiler {
    /// Opens it, or says why not.
    pub(super) fn open() -> Result<Self, String> {
        Self::find(|name| env::var_os(name))
    }

    /// The same with another environment.
    fn find(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, String> {
        if !present() {
            let found = locate::nvrtc(variable, Path::new("/usr/local"));
            found.iter().flatten().for_each(|library| locate::open(library));
            if found.is_none() || !present() {
                return Err("NVRTC is not installed".to_owned());
            }
        }
        let version = guarded(|| {
            let (mut major, mut minor) = (0, 0);
            #[expect(unsafe_code, reason = "the bindings wrap this function nowhere else")]
            // SAFETY: both pointers are to integers of the type that the function writes.
            unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) }.result()?;
            Ok((major.unsigned_abs(), minor.unsigned_abs()))
        });
        Ok(Self { version: version? })
    }

    /// Its version, major and minor.
    pub(super) fn version(&self) -> (u32, u32) {
        self.version
    }

    /// The kernels as machine code for an architecture such as `sm_90`.
    pub(super) fn cubin(&self, architecture: &str) -> Result<Vec<u8>, String> {
        let source =
            CString::new(program()).map_err(|_| "the kernels contain a zero".to_owned())?;
        let mut options: Vec<String> = OPTIONS.map(str::to_owned).into();
        options.push(format!("--gpu-architecture={architecture}"));
        let mut log = String::new();
        let cubin = guarded(|| {
            let program = Program::new(&source)?;
            let done = program.compile(&options);
            log = program.log();
            done.and_then(|()| program.cubin())
        });
        cubin.map_err(|error| match log.trim() {
            "" => format!("NVRTC does not compile the kernels for {architecture}: {error}"),
            log => format!("NVRTC does not compile the kernels for {architecture}: {error}\n{log}"),
        })
    }
}

/// Whether the library can be opened by its name.
fn present() -> bool {
    #[expect(unsafe_code, reason = "opens a library, which runs its initialisers")]
    // SAFETY: NVIDIA's compiler is made to be opened by any program.
    unsafe {
        sys::is_culib_present()
    }
}

/// Calls the bindings, which panic where the library lacks a function.
fn guarded<T>(call: impl FnOnce() -> Result<T, NvrtcError>) -> Result<T, String> {
    let called = panic::catch_unwind(panic::AssertUnwindSafe(call));
    called.map_err(|panic| panicked(&*panic))?.map_err(|error| format!("{:?}", error.0))
}

/// A program of NVRTC.
struct Program<'a> {
    handle: sys::nvrtcProgram,
    /// NVRTC may look at it until the program is gone.
    _source: &'a CStr,
}

#[expect(unsafe_code, reason = "the bindings have no safe form that yields machine code")]
impl<'a> Program<'a> {
    fn new(source: &'a CStr) -> Result<Self, NvrtcError> {
        let handle = result::create_program(source, Some(c"proofmill.cu"))?;
        Ok(Self { handle, _source: source })
    }

    fn compile(&self, options: &[String]) -> Result<(), NvrtcError> {
        // SAFETY: the handle is of a program that lives.
        unsafe { result::compile_program(self.handle, options) }
    }

    /// What the compiler has to say.
    fn log(&self) -> String {
        // SAFETY: the handle is of a program that lives.
        let log = unsafe { result::get_program_log(self.handle) }.unwrap_or_default();
        // The type of C's characters has a sign or not, as the processor has it.
        let bytes: Vec<u8> = log.iter().flat_map(|byte| byte.to_ne_bytes()).collect();
        String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
    }

    fn cubin(&self) -> Result<Vec<u8>, NvrtcError> {
        let mut bytes = 0;
        // SAFETY: the handle is of a program that lives, the pointer to a number that does.
        unsafe { sys::nvrtcGetCUBINSize(self.handle, &raw mut bytes) }.result()?;
        let mut cubin = vec![0_u8; bytes];
        // SAFETY: there is room for as many bytes as the program was just asked for.
        unsafe { sys::nvrtcGetCUBIN(self.handle, cubin.as_mut_ptr().cast()) }.result()?;
        Ok(cubin)
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "a program is a handle of C")]
        // SAFETY: the handle is of a program that nobody else destroys. Nothing is to be done where
        // that fails.
        let _ = unsafe { result::destroy_program(self.handle) };
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::PathBuf;

    use super::*;

    /// The compiler that `udfs/kernels/check` brought, or the system's.
    fn compiler() -> Option<Compiler> {
        let home = PathBuf::from(env::var_os("HOME").unwrap_or_default());
        let cache = env::var_os("XDG_CACHE_HOME").map_or(home.join(".cache"), PathBuf::from);
        let brought = cache.join("proofmill-kernels/12.4.127-12.4.131");
        let found = Compiler::find(|name| match name {
            "VIRTUAL_ENV" => Some(brought.clone().into()),
            _ => env::var_os(name),
        });
        if let Err(why) = &found {
            // Past the test runner's capture: a check that was skipped must be seen.
            let _ = writeln!(std::io::stderr(), "SKIPPED: {why}; `udfs/kernels/check` brings it");
        }
        found.ok()
    }

    #[test]
    fn the_kernels_compile_to_machine_code() {
        let Some(compiler) = compiler() else { return };
        assert!(compiler.version() >= (12, 0), "{compiler:?}");
        let cubin = compiler.cubin("sm_90").unwrap();
        assert_eq!(cubin[..4], *b"\x7fELF");
    }

    #[test]
    fn an_unknown_architecture_is_an_error() {
        let Some(compiler) = compiler() else { return };
        let error = compiler.cubin("sm_12345").unwrap_err();
        assert!(error.contains("sm_12345") && error.contains("INVALID_OPTION"), "{error}");
    }
}
