//! How near two results are.

use crate::golden::Run;

/// ||ours - theirs|| / ||theirs||, in f64.
pub fn relative_error(ours: &[f32], theirs: &[f32]) -> f64 {
    assert_eq!(ours.len(), theirs.len());
    let length = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let apart = length(&mut ours.iter().zip(theirs).map(|(a, b)| f64::from(a - b)));
    apart / length(&mut theirs.iter().copied().map(f64::from))
}

/// The first step at which an answer differs from the golden one. A near-tie (a gap below
/// `tolerance`) may go either way, and nothing behind it can be compared.
pub fn first_difference(ours: &[u32], theirs: &Run, tolerance: f64) -> Option<usize> {
    let differs = (0..ours.len().max(theirs.tokens.len()))
        .find(|&step| ours.get(step) != theirs.tokens.get(step))?;
    (theirs.gaps.iter().take(differs + 1).all(|&gap| gap >= tolerance)).then_some(differs)
}

#[test]
fn errors_are_relative_to_the_golden() {
    assert_eq!(relative_error(&[3.0, 4.0], &[3.0, 4.0]), 0.0);
    assert_eq!(relative_error(&[3.0, 5.0], &[3.0, 4.0]), 0.2);
    assert!(relative_error(&[f32::NAN], &[1.0]).is_nan());
}

#[test]
fn differences_count_up_to_the_first_near_tie() {
    let golden =
        Run { tokens: vec![5, 6, 7], gaps: vec![1.0, 1e-6, 1.0], logprob: -1.0, logprobs: vec![] };
    assert_eq!(first_difference(&[5, 6, 7], &golden, 1e-4), None);
    assert_eq!(first_difference(&[4, 6, 7], &golden, 1e-4), Some(0));
    assert_eq!(first_difference(&[5, 9, 7], &golden, 1e-4), None);
    assert_eq!(first_difference(&[5, 6, 9], &golden, 1e-4), None);
    assert_eq!(first_difference(&[5, 6, 9], &golden, 1e-7), Some(2));
    assert_eq!(first_difference(&[5, 6], &golden, 1e-7), Some(2));
    assert_eq!(first_difference(&[5, 6, 7, 8], &golden, 1e-7), Some(3));
}
