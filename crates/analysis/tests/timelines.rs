//! Buckets of time: where each moment is, how wide they become, and what is merged.

mod common;

use common::plain;
use exitscope_analysis::{Bucket, DurationStats, Timeline, wider};
use exitscope_model::{Exit, ExitParts, TimePart};
use exitscope_units::{Moment, Nanos};

fn at(nanos: u64) -> Moment {
    Moment::from_nanos(nanos)
}

/// An exit at that moment that costs so much, and waits for a CPU besides.
fn exit(nanos: u64, kernel: u64) -> Exit {
    let parts = ExitParts::ZERO.with(TimePart::Kernel, Nanos(kernel)).with(TimePart::Steal, Nanos(9_000));
    Exit { at: at(nanos), parts, ..plain() }
}

fn timeline(most: u64, exits: &[(u64, u64)]) -> Timeline {
    let mut timeline = Timeline::of_at_most(most);
    exits.iter().for_each(|&(nanos, kernel)| timeline.absorb(&exit(nanos, kernel)));
    timeline
}

/// The width, and each bucket's beginning, count and cost.
fn seen(timeline: &Timeline) -> (u64, Vec<(u64, u64, u64)>) {
    let (width, buckets) = timeline.buckets();
    let row = |(begin, Bucket { count, cost }): (Moment, Bucket)| (begin.as_nanos(), count, cost);
    (width, buckets.into_iter().map(row).collect())
}

#[test]
fn exits_are_in_the_bucket_in_which_they_began() {
    // To and fro, at both ends of buckets, and one of which an end is missing.
    let mut exits = timeline(4, &[(500, 3), (2_999, 5), (999, 7), (1_000, 11), (3_000, 13), (2_000, 17), (0, 19)]);
    exits.absorb(&Exit { timed: false, ..exit(2_500, 23) });
    assert_eq!(seen(&exits), (1_000, vec![(0, 3, 29), (1_000, 1, 11), (2_000, 3, 22), (3_000, 1, 13)]));
    // Those between the first and the last are there, though nothing is in them.
    assert_eq!(
        seen(&timeline(4, &[(7_100, 3), (9_900, 5)])),
        (1_000, vec![(7_000, 1, 3), (8_000, 0, 0), (9_000, 1, 5)])
    );
    assert_eq!(seen(&timeline(4, &[])), (1_000, vec![]));
}

#[test]
fn buckets_widen_when_there_would_be_more_than_the_most() {
    let three = [(10_500, 3), (13_999, 5), (11_200, 7)];
    assert_eq!(
        seen(&timeline(4, &three)),
        (1_000, vec![(10_000, 1, 3), (11_000, 1, 7), (12_000, 0, 0), (13_000, 1, 5)])
    );
    // A fifth of 1 us makes three of 2 us of them; one at 25 us is the eighth of these, so that they become 10 us wide.
    let five = [&three[..], &[(14_000, 11)]].concat();
    assert_eq!(seen(&timeline(4, &five)), (2_000, vec![(10_000, 2, 10), (12_000, 1, 5), (14_000, 1, 11)]));
    let wide = [&five[..], &[(25_000, 13), (9_999, 17)]].concat();
    assert_eq!(seen(&timeline(4, &wide)), (10_000, vec![(0, 1, 17), (10_000, 4, 26), (20_000, 1, 13)]));
    // There are two at least, whatever is asked for.
    assert_eq!(seen(&timeline(0, &[(0, 3), (1_000, 5)])), (1_000, vec![(0, 1, 3), (1_000, 1, 5)]));
    assert_eq!(seen(&timeline(0, &[(0, 3), (2_000, 5)])), (2_000, vec![(0, 1, 3), (2_000, 1, 5)]));
}

#[test]
fn each_width_divides_the_next() {
    let mut widths = vec![1_000];
    (0..6).for_each(|_| widths.push(wider(widths[widths.len() - 1])));
    assert_eq!(widths, [1_000, 2_000, 10_000, 20_000, 100_000, 200_000, 1_000_000]);
}

#[test]
fn what_lasts_is_in_every_bucket_with_what_of_it_lies_there() {
    let spread = |stretches: &[(u64, u64, u64)]| {
        let mut timeline = Timeline::of_at_most(4);
        stretches.iter().for_each(|&(from, to, weight)| timeline.spread(at(from), at(to), weight));
        seen(&timeline)
    };
    let over_three = vec![(1_000, 500, 1_500), (2_000, 1_000, 3_000), (3_000, 200, 600)];
    assert_eq!(spread(&[(1_500, 3_200, 3)]), (1_000, over_three.clone()));
    // One that ends with a bucket is not in the next, and what does not last is nowhere.
    assert_eq!(
        spread(&[(2_000, 3_000, 3), (7_000, 7_000, 5), (9_000, 8_000, 5)]),
        (1_000, vec![(2_000, 1_000, 3_000)])
    );
    assert_eq!(spread(&[(2_100, 2_101, 3)]), (1_000, vec![(2_000, 1, 3)]));
    // From the bucket in hand to another; from another to the one in hand; within it.
    assert_eq!(
        spread(&[(1_500, 3_200, 3), (3_600, 4_100, 2), (2_900, 4_050, 1), (4_060, 4_080, 7)]),
        (1_000, vec![(1_000, 500, 1_500), (2_000, 1_100, 3_100), (3_000, 1_600, 2_400), (4_000, 170, 390)])
    );
    // From 500 to 4,500 are five buckets of 1 us, and three of 2 us.
    assert_eq!(
        spread(&[(500, 4_500, 2)]),
        (2_000, vec![(0, 1_500, 3_000), (2_000, 2_000, 4_000), (4_000, 500, 1_000)])
    );
    // So wide that the last one's beginning decides, too.
    assert_eq!(
        spread(&[(900, 1_000, 2), (1_000, 4_000, 1)]),
        (1_000, vec![(0, 100, 200), (1_000, 1_000, 1_000), (2_000, 1_000, 1_000), (3_000, 1_000, 1_000)])
    );
}

#[test]
fn timelines_merge_to_what_one_of_all_would_have_been() {
    let (narrow, wide) = ([(10_500, 3), (12_100, 5)], [(11_000, 7), (21_000, 11), (12_300, 13)]);
    let expected = (10_000, vec![(10_000, 4, 28), (20_000, 1, 11)]);
    assert_eq!(seen(&timeline(4, &[&narrow[..], &wide[..]].concat())), expected);
    for (left, right) in [(&narrow[..], &wide[..]), (&wide[..], &narrow[..])] {
        let mut both = timeline(4, left);
        both.merge(&timeline(4, right));
        assert_eq!(seen(&both), expected);
        // What comes after goes on where it was.
        both.absorb(&exit(10_000, 2));
        assert_eq!(seen(&both).1[0], (10_000, 5, 30));
    }
    // Each fits, and both of them do not.
    let mut apart = timeline(4, &[(10_500, 3)]);
    apart.merge(&timeline(4, &[(14_500, 5)]));
    assert_eq!(seen(&apart), (2_000, vec![(10_000, 1, 3), (12_000, 0, 0), (14_000, 1, 5)]));
    let mut close = timeline(4, &[(10_500, 3)]);
    close.merge(&timeline(4, &[(13_500, 5)]));
    assert_eq!(seen(&close).0, 1_000);
}

#[test]
fn lengths_are_counted_summed_and_distributed() {
    let mut lengths = DurationStats::default();
    assert_eq!((lengths.mean(), lengths.quantile(5_000)), (None, None));
    [30, 500, 70].iter().for_each(|&length| lengths.record(Nanos(length)));
    assert_eq!((lengths.count, lengths.sum, lengths.max), (3, 600, 500));
    assert_eq!((lengths.mean(), lengths.quantile(5_000)), (Some(Nanos(200)), Some(Nanos(70))));
    let mut more = DurationStats::default();
    [40, 600].iter().for_each(|&length| more.record(Nanos(length)));
    for (left, right) in [(&lengths, &more), (&more, &lengths)] {
        let mut both = left.clone();
        both.merge(right);
        assert_eq!((both.count, both.sum, both.max, both.histogram.total()), (5, 1_240, 600, 5));
        assert_eq!((both.mean(), both.quantile(10_000)), (Some(Nanos(248)), Some(Nanos(600))));
    }
}
