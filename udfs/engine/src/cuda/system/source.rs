//! The kernels as one program, how it is compiled, and the PTX that was made of it.

use crate::checkpoint::Digest;
use crate::cuda::kernel::{COMMON, SOURCES};

/// How the program is compiled, beside the architecture. `udfs/kernels/check` compiles it likewise.
pub(super) const OPTIONS: [&str; 3] = ["--fmad=false", "--std=c++17", "-default-device"];

/// Code that every driver new enough compiles for its GPU, made of the program beforehand.
pub(super) const PTX: &str = include_str!("../../../../kernels/ptx/proofmill.ptx");

/// All sources, one after the other.
pub(super) fn program() -> String {
    let all = [("common.cu", COMMON)].into_iter().chain(SOURCES);
    all.map(|(name, text)| format!("#line 1 \"{name}\"\n{text}\n")).collect()
}

/// What the compiled code depends on, beside the compiler and the architecture.
pub(super) fn digest() -> Digest {
    Digest::of(format!("{}\n{}", OPTIONS.join(" "), program()).as_bytes())
}

/// Whether `ptx` says in its first line that it was made of these sources.
pub(super) fn fits(ptx: &str) -> Result<(), String> {
    let first = ptx.lines().next().unwrap_or_default();
    let found = first.strip_prefix("// sha256 ").and_then(|rest| rest.split(' ').next());
    let expected = digest().to_string();
    match found {
        Some(found) if found == expected => Ok(()),
        Some(found) => Err(format!(
            "ptx/proofmill.ptx was made of other kernels ({found} instead of {expected}): run \
             `udfs/kernels/check --write` and build again"
        )),
        None => Err(format!(
            "ptx/proofmill.ptx does not say what it was made of, but begins with `{first}`: run \
             `udfs/kernels/check --write` and build again"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::kernel::Kernel;

    #[test]
    fn the_ptx_was_made_of_these_kernels() {
        if let Err(why) = fits(PTX) {
            panic!("{why}");
        }
    }

    #[test]
    fn the_ptx_has_all_kernels_and_can_be_handed_to_c() {
        for kernel in Kernel::ALL {
            let entry = format!(".visible .entry {}(", kernel.name());
            assert!(PTX.contains(&entry), "`{}` is not in the PTX", kernel.name());
        }
        assert!(PTX.contains("\n.target sm_80\n") && PTX.contains("\n.version 8.4\n"));
        assert!(!PTX.contains('\0') && !program().contains('\0'));
    }

    #[test]
    fn ptx_of_other_kernels_is_refused() {
        let other = format!("// sha256 {} of the sources", Digest::of(b"other"));
        assert!(fits(&other).unwrap_err().contains("was made of other kernels"));
        assert!(fits(".version 8.4").unwrap_err().contains("begins with `.version 8.4`"));
        assert!(fits("").is_err());
    }

    #[test]
    fn kernels_are_numbered_as_they_are_listed() {
        for (number, kernel) in Kernel::ALL.into_iter().enumerate() {
            assert_eq!(kernel as usize, number);
        }
    }

    #[test]
    fn the_check_compiles_as_the_program_does() {
        let check = include_str!("../../../../kernels/check");
        let options = OPTIONS.map(|option| format!("\"{option}\"")).join(", ");
        assert!(check.contains(&format!("OPTIONS = [{options}]")));
    }
}
