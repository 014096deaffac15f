//! Statistics as users reach them: settings of `compare`, and functions in SQL. The numbers are those of
//! statsmodels and scipy, or of the definitions in Python.

use serde_json::{Value as Json, json};

use crate::support::{Workspace, set};

/// Three runs of two systems over five items. By run `hit` has the means .4 .6 .4 and .8 .8 1.0; `sure` tells
/// them apart on every item.
fn rows() -> String {
    let hits = [("base", [2, 3, 2], false), ("cand", [4, 4, 5], true)];
    let mut rows = Vec::new();
    for (system, right, sure) in hits {
        for (seed, right) in right.into_iter().enumerate() {
            rows.extend(
                (0..5)
                    .map(|item| format!("('{system}', {item}, {seed}, {}, {sure})", item < right)),
            );
        }
    }
    format!("SELECT * FROM (VALUES {}) AS t(system, item, seed, hit, sure)", rows.join(", "))
}

fn number(row: &Json, column: &str) -> f64 {
    row[column].as_f64().unwrap_or_else(|| panic!("{column} of {row}"))
}

fn assert_near(row: &Json, expected: &[(&str, f64)]) {
    for (column, expected) in expected {
        let found = number(row, column);
        assert!((found - expected).abs() < 1e-9, "{column}: {found}, expected {expected}");
    }
}

#[test]
fn a_comparison_of_every_night_spends_its_level_and_knows_the_noise_of_its_runs() {
    let settings = "from: rows, systems: system, key: item, metrics: { hit: hit, sure: sure }";
    let workspace = Workspace::with(&format!(
        "pipeline: nightly
params: {{ night: 1 }}
stages:
  rows: {{ sql: \"{}\" }}
  nightly: {{ compare: {{ {settings}, reruns: seed, look: \"${{params.night}}\" }} }}
",
        rows()
    ));
    workspace.run();
    let found = workspace.sql("SELECT * FROM nightly");
    let [hit, sure] = &found[..] else { panic!("{found:?}") };
    assert_near(
        hit,
        &[
            ("baseline_value", 7.0 / 15.0),
            ("candidate_value", 13.0 / 15.0),
            ("n", 15.0),
            ("runs", 3.0),
            ("noise_floor", 0.2),
            ("only_baseline", 0.0),
            ("only_candidate", 6.0),
            ("p_mcnemar", 0.03125),
            ("p_holm", 0.03125),
            // .05 * 6 / pi^2
            ("alpha_spent", 0.030_396_355_092_701_34),
            // 2^6 * B(.5, 6.5) / B(.5, .5)
            ("e_value", 14.4375),
        ],
    );
    // An alarm of a single test at .05, and none of a series that is looked at every night.
    assert_eq!((&hit["above_noise"], &hit["alarm"]), (&true.into(), &false.into()));
    assert_near(sure, &[("noise_floor", 0.0), ("p_holm", 2.0_f64.powi(-14))]);
    assert_eq!((&sure["above_noise"], &sure["alarm"]), (&true.into(), &true.into()));

    // The thirtieth night has less left to spend.
    let run = workspace.json(&["run", "p.yaml", "--param", "night=30"]);
    assert_eq!(crate::support::executed(&run), set(&["nightly"]));
    let found = workspace.sql("SELECT * FROM nightly");
    assert_near(&found[1], &[("alpha_spent", 3.377_372_788_077_927e-5)]);
    assert_eq!(found[1]["alarm"], Json::Bool(false));

    // A difference within the noise; and one run, which knows of none.
    workspace.edit("p.yaml", "hit: hit,", "hit: 'CASE WHEN seed = 0 THEN hit ELSE item < 3 END',");
    workspace.run();
    let [within, _] = &workspace.sql("SELECT * FROM nightly")[..] else { panic!() };
    assert_near(within, &[("diff", 2.0 / 15.0), ("noise_floor", 0.2)]);
    assert_eq!(within["above_noise"], Json::Bool(false));
    workspace.edit("p.yaml", "reruns: seed", "reruns: system");
    workspace.edit("p.yaml", "key: item", "key: [item, seed]");
    workspace.run();
    assert_eq!(workspace.sql("SELECT * FROM nightly"), Vec::<Json>::new(), "no run in common");
    workspace.edit("p.yaml", "reruns: system", "reruns: one");
    workspace.edit("p.yaml", "SELECT * FROM (VALUES", "SELECT *, 1 AS one FROM (VALUES");
    workspace.run();
    let [single, _] = &workspace.sql("SELECT * FROM nightly")[..] else { panic!() };
    assert_near(single, &[("runs", 1.0)]);
    assert!(single["noise_floor"].is_null() && single["above_noise"].is_null(), "{single}");

    // Without these settings the table has none of these columns.
    workspace.edit("p.yaml", ", reruns: one, look: \"${params.night}\"", "");
    workspace.run();
    let plain = workspace.sql("SELECT * FROM nightly");
    let columns = ["runs", "noise_floor", "above_noise", "alpha_spent", "alarm", "e_value"];
    assert!(columns.iter().all(|column| plain[0].get(column).is_none()), "{}", plain[0]);
}

#[test]
fn looks_and_columns_of_runs_are_checked() {
    let workspace = Workspace::with(&format!(
        "pipeline: nightly
stages:
  rows: {{ sql: \"{}\" }}
  nightly: {{ compare: {{ from: rows, systems: system, key: item, correct: hit, reruns: sede, look: 0 }} }}
",
        rows()
    ));
    workspace.proofmill(&["check", "p.yaml"]).expect(3).says("look");
    workspace.edit("p.yaml", "look: 0", "look: 1");
    workspace.proofmill(&["check", "p.yaml"]).expect(3).says("`sede`").says("`seed`");
}

/// Counts of several nights state, the unpaired test, and the spread of runs, in SQL over tables of a run.
#[test]
fn sequential_and_unpaired_tests_and_noise_are_functions() {
    let workspace = Workspace::with(
        "pipeline: sql
stages:
  nights: { sql: 'SELECT * FROM (VALUES (1, 3, 9), (2, 2, 8), (3, 4, 11)) AS t(night, b, c)' }
  runs: { sql: \"SELECT * FROM (VALUES ('x', 0.75), ('x', 0.7), ('x', 0.725), ('y', 0.5)) AS t(system, accuracy)\" }
  looks:
    sql: >
      SELECT night, sign_e_value(sum(b) OVER (ORDER BY night), sum(c) OVER (ORDER BY night)) AS e,
             alpha_spent(night, 0.1) AS level
      FROM nights ORDER BY night
  unpaired: { sql: 'SELECT two_proportion_z(363, 500, 385, 500) AS test' }
  spread: { sql: 'SELECT system, noise_floor(accuracy) AS noise FROM runs GROUP BY system ORDER BY system' }
",
    );
    workspace.run();
    let looks = workspace.sql("SELECT * FROM looks ORDER BY night");
    let expected =
        [(1.079101562499999, 0.1), (5.324163436889653, 0.025), (21.74999645241759, 0.1 / 9.0)];
    for (look, (e, share)) in looks.iter().zip(expected) {
        let level = share * 6.0 / std::f64::consts::PI.powi(2);
        assert_near(look, &[("e", e), ("level", level)]);
    }
    let test = &workspace.sql("SELECT * FROM unpaired")[0]["test"];
    for (part, expected) in [("diff", 0.044), ("z", 1.604_464), ("p", 0.108_612)] {
        assert!((number(test, part) - expected).abs() < 1e-6, "{part} of {test}");
    }
    let spread = workspace.sql("SELECT * FROM spread ORDER BY system");
    assert_near(&spread[0]["noise"], &[("mean", 0.725), ("sd", 0.025), ("floor", 0.05)]);
    assert_eq!(spread[0]["noise"]["runs"], 3);
    assert!(spread[1]["noise"]["sd"].is_null(), "{}", spread[1]);
}

/// Three items in three clusters, right in one system alone.
#[test]
fn three_items_are_no_certainty() {
    let values: Vec<String> = ["base", "cand"]
        .iter()
        .flat_map(|s| (0..3).map(move |i| format!("('{s}', {i}, 'c{i}', {})", *s == "cand")))
        .collect();
    let workspace = Workspace::with(&format!(
        "pipeline: p
stages:
  rows: {{ sql: \"SELECT * FROM (VALUES {}) AS t(system, item, cluster, ok)\" }}
  moved: {{ sql: \"SELECT system, item, CASE WHEN system = 'base' THEN 'c0' ELSE cluster END AS cluster, ok FROM rows\" }}
  one: {{ sql: \"SELECT system, item, 'all' AS cluster, ok FROM rows\" }}
  three: {{ compare: {{ from: rows, systems: system, key: item, correct: ok, cluster: cluster, look: 1 }} }}
  alone: {{ compare: {{ from: one, systems: system, key: item, correct: ok, cluster: cluster, look: 1 }} }}
  rate: {{ measure: {{ from: rows, correct: ok, metrics: {{ points: CASE WHEN ok THEN 2 ELSE 1 END }}, by: [system], cluster: cluster }} }}
  resampled: {{ measure: {{ from: rows, correct: ok, by: [system], ci: {{ bootstrap: 100 }} }} }}
  torn: {{ compare: {{ from: moved, systems: system, key: item, correct: ok, cluster: cluster }} }}
",
        values.join(", ")
    ));
    workspace
        .proofmill(&["run", "p.yaml"])
        .expect(1)
        .says("the item `1` is in the cluster `c0` for `base` and in `c1` for `cand`")
        .says("a metric rests on 3 clusters of `cluster`: fewer than 10 say little about");
    // Right in all of three clusters: as three of three, by the distribution of t.
    let rates = workspace.sql(
        "SELECT * FROM (SELECT 1 AS place, * FROM rate UNION ALL SELECT 2 AS place, * FROM resampled) AS both
         WHERE system = 'cand' ORDER BY place, name",
    );
    assert_near(&rates[0], &[("ci_low", 0.13945172828972063), ("ci_high", 1.0)]);
    assert_eq!(rates[0]["ci_method"], "clustered wilson");
    for (row, method) in [(1, "none: no clusters that differ"), (2, "none: no rows that differ")] {
        assert_eq!(rates[row]["ci_method"], method);
        assert!(rates[row]["ci_low"].is_null() && rates[row]["se"].is_null(), "{}", rates[row]);
    }
    let of = |stage: &str| {
        let mut rows = workspace.sql(&format!(
            "SELECT ci_low, ci_method, p_mcnemar, p_bootstrap, p_clustered, p_holm, alarm FROM {stage}"
        ));
        rows.remove(0)
    };
    let three = of("three");
    assert_eq!(three["p_holm"], 0.25, "{three}");
    assert_eq!(three["alarm"], false, "{three}");
    assert_eq!(three["ci_method"], "none: all clusters differ alike");
    for unknown in ["ci_low", "p_bootstrap", "p_clustered"] {
        assert!(three[unknown].is_null(), "{unknown}: {three}");
    }
    let alone = of("alone");
    for unknown in ["ci_low", "p_mcnemar", "p_bootstrap", "p_clustered", "p_holm", "alarm"] {
        assert!(alone[unknown].is_null(), "{unknown}: {alone}");
    }
}

/// NULL and the empty text are two values of a column, and no name of a system.
#[test]
fn null_is_no_empty_text() {
    let workspace = Workspace::with(
        "pipeline: p
stages:
  rows: { sql: \"SELECT * FROM (VALUES (1, NULL, true), (2, '', false), (3, '', false), (4, 'x', true)) AS t(id, split, ok)\" }
  by_split: { measure: { from: rows, correct: ok, by: [split] } }
  versus: { compare: { from: rows, systems: split, key: id, correct: ok } }
",
    );
    workspace.proofmill(&["run", "p.yaml"]).expect(1).says("the system of the item `1` is NULL");
    let found = workspace.sql("SELECT split, value, n_attempted AS n FROM by_split");
    assert_eq!(
        found,
        [
            json!({"split": null, "value": 1.0, "n": 1}),
            json!({"split": "", "value": 0.0, "n": 2}),
            json!({"split": "x", "value": 1.0, "n": 1}),
        ]
    );
}

#[test]
fn values_that_cannot_be_added_up_have_no_mean() {
    let workspace = Workspace::with(
        "pipeline: large
stages:
  rows: { sql: \"SELECT true AS ok, column1 AS v, column2 AS g FROM (VALUES (1e308, 'a'), (1.5e308, 'a'), (-1e308, 'b')) AS t\" }
  means: { measure: { from: rows, correct: ok, metrics: { large: v } } }
  spreads: { measure: { from: rows, correct: ok, metrics: { large: v * 1e-100 }, cluster: g } }
  resampled: { measure: { from: rows, correct: ok, metrics: { large: v }, ci: { bootstrap: 100 } } }
",
    );
    let done = workspace.proofmill(&["run", "p.yaml"]).expect(1);
    let said = "the values of `large`, or their squares, are too large to sum";
    assert_eq!(done.stderr.matches(said).count(), 2, "{}", done.stderr);
    // What does not add up to do it is told.
    assert!(done.stderr.contains("done resampled"), "{}", done.stderr);
}
