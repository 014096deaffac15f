//! The `bm25.*` golden cases, end to end: texts → folder → scores.
//!
//! Expected numbers: rank_bm25 0.2.2, bm25s 0.3.16 and tantivy 0.27.0 on the penny documents, and
//! the closed form of Lucene's formula. A case that fails after an upgrade means that the metric
//! changed.

use crate::IndexSpec;
use crate::tests::support::{PENNY, index};
use proofmill_settings::search::Variant;

struct Case {
    id: &'static str,
    variant: Variant,
    k1: Option<f64>,
    delta: Option<f64>,
    /// By document; 0 for a document that is not returned.
    scores: [f64; 6],
    tolerance: f64,
}

const CASES: [Case; 13] = [
    Case {
        id: "bm25.rank_bm25.okapi",
        variant: Variant::Okapi,
        k1: None,
        delta: None,
        scores: [
            1.6535338670992838,
            1.6786422608121967,
            0.0,
            0.4981242922899314,
            2.2664289257143158,
            0.5528230011076466,
        ],
        tolerance: 1e-6,
    },
    Case {
        id: "bm25.rank_bm25.plus",
        variant: Variant::Bm25Plus,
        k1: None,
        delta: Some(1.0),
        scores: [
            9.635487258784888,
            10.448188143273844,
            NOT_MATCHED,
            7.885094163035456,
            11.700951111769212,
            8.053355439061544,
        ],
        tolerance: 1e-6,
    },
    Case {
        id: "bm25.rank_bm25.l",
        variant: Variant::RankBm25l,
        k1: None,
        delta: None,
        scores: [
            2.8924046281596456,
            3.6786304236504934,
            0.0,
            1.1797722488534104,
            4.965654695126942,
            1.1659475407363529,
        ],
        tolerance: 1e-6,
    },
    Case {
        id: "bm25.bm25s.lucene",
        variant: Variant::Lucene,
        k1: Some(1.5),
        delta: None,
        scores: [
            0.8895818591117859,
            1.1771618127822876,
            0.0,
            0.3490235507488251,
            1.5890096426010132,
            0.3884243965148926,
        ],
        tolerance: 1e-5,
    },
    Case {
        id: "bm25.bm25s.robertson",
        variant: Variant::Robertson,
        k1: None,
        delta: None,
        scores: [
            0.4768010973930359,
            0.4702293276786804,
            0.0,
            0.19924971461296082,
            0.7053439617156982,
            0.0,
        ],
        tolerance: 1e-5,
    },
    Case {
        id: "bm25.bm25s.atire",
        variant: Variant::Atire,
        k1: None,
        delta: None,
        scores: [
            2.387788772583008,
            3.00815486907959,
            0.0,
            0.931027352809906,
            4.106767177581787,
            0.8911320567131042,
        ],
        tolerance: 1e-5,
    },
    Case {
        id: "bm25.bm25s.bm25l",
        variant: Variant::Bm25l,
        k1: None,
        delta: None,
        scores: [
            4.822940826416016,
            5.284920692443848,
            NOT_MATCHED,
            3.981865406036377,
            5.928432941436768,
            4.059261798858643,
        ],
        tolerance: 1e-5,
    },
    Case {
        id: "bm25.bm25s.bm25+",
        variant: Variant::Bm25Plus,
        k1: None,
        delta: None,
        scores: [
            6.223771572113037,
            7.036472320556641,
            NOT_MATCHED,
            4.473378658294678,
            8.28923511505127,
            4.641639709472656,
        ],
        tolerance: 1e-5,
    },
    Case {
        id: "bm25.bm25s.lucene.k1.2",
        variant: Variant::Lucene,
        k1: None,
        delta: None,
        scores: [
            1.0185338258743286,
            1.3376837968826294,
            0.0,
            0.4021950960159302,
            1.8056926727294922,
            0.4374581575393677,
        ],
        tolerance: 1e-5,
    },
    Case {
        id: "bm25.closed_form.k1.5",
        variant: Variant::Lucene,
        k1: Some(1.5),
        delta: None,
        scores: [
            0.8895818515615515,
            1.177161735568158,
            0.0,
            0.3490235312478502,
            1.5890095024406212,
            0.3884243976079466,
        ],
        tolerance: 1e-6,
    },
    Case {
        id: "bm25.closed_form.k1.2",
        variant: Variant::Lucene,
        k1: None,
        delta: None,
        scores: [
            1.0185338426492552,
            1.3376837904183612,
            0.0,
            0.4021950848363899,
            1.8056926164097966,
            0.43745817057330616,
        ],
        tolerance: 1e-6,
    },
    Case {
        id: "bm25.closed_form.k1.2.times2.2",
        variant: Variant::Lucene7,
        k1: None,
        delta: None,
        scores: [
            2.2407744538283616,
            2.942904338920395,
            0.0,
            0.8848291866400578,
            3.9725237561015527,
            0.9624079752612736,
        ],
        tolerance: 1e-6,
    },
    Case {
        id: "bm25.tantivy",
        variant: Variant::Tantivy,
        k1: None,
        delta: None,
        scores: [
            1.83235764503479,
            2.5010716915130615,
            0.0,
            0.8848292827606201,
            3.530691146850586,
            0.4812040328979492,
        ],
        tolerance: 1e-5,
    },
];

/// The libraries give these documents a positive constant; we return matching documents only.
const NOT_MATCHED: f64 = 0.0;

#[test]
fn golden_cases_hold() {
    for case in CASES {
        let spec = IndexSpec {
            variant: case.variant,
            k1: case.k1,
            delta: case.delta,
            ..IndexSpec::default()
        };
        let (_dir, index) = index(spec, &PENNY);
        let hits = index.search("Can a magnet attract a penny?", 6).unwrap();
        let mut scores = [0.0; 6];
        for hit in &hits {
            scores[hit.ordinal as usize] = hit.score;
        }
        for (ordinal, (score, expected)) in scores.iter().zip(case.scores).enumerate() {
            let id = case.id;
            assert!(
                (score - expected).abs() <= case.tolerance,
                "{id}: D{ordinal} {score} {expected}"
            );
        }
        assert!(hits.windows(2).all(|pair| pair[0].score > pair[1].score), "{}", case.id);
    }
}

#[test]
fn the_default_ranks_the_penny_case_as_published() {
    let (_dir, index) = index(IndexSpec::default(), &PENNY);
    let hits = index.search("Can a magnet attract a penny?", 5).unwrap();
    let ordinals: Vec<u32> = hits.iter().map(|hit| hit.ordinal).collect();
    assert_eq!(ordinals, [4, 1, 0, 5, 3]);
}
