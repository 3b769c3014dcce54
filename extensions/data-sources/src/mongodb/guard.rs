//! The MongoDB guard of read-only sources: reading commands, pipelines of allowed stages, and allowed operators, at any
//! depth. Called by `sources` before a query is sent.
//!
//! Invariant: these are allow-lists. A key that begins with `$` and is on none is refused, wherever it occurs.

use std::collections::HashSet;
use std::sync::LazyLock;

use mongodb::bson::{Bson, Document};

use super::mql::Asked;

/// Allowed stages. Not included: those that write ($out, $merge), run programs, or inspect the server and other users'
/// work ($currentOp, $listSessions, $collStats …).
const STAGES: &str = "
    $addFields $bucket $bucketAuto $count $densify $documents $facet $fill $geoNear $graphLookup $group $limit $lookup $match $project
    $redact $replaceRoot $replaceWith $sample $set $setWindowFields $skip $sort $sortByCount $unionWith $unset $unwind";
/// Allowed operators of expressions, filters, projections and windows. Not included: $where, $function, $accumulator.
const OPERATORS: &str = "
    $abs $acos $acosh $add $addToSet $all $allElementsTrue $and $anyElementTrue $arrayElemAt $arrayToObject $asin $asinh $atan $atan2 $atanh $avg
    $binarySize $bitAnd $bitNot $bitOr $bitXor $bitsAllClear $bitsAllSet $bitsAnyClear $bitsAnySet $bottom $bottomN $box $bsonSize $ceil $center
    $centerSphere $cmp $comment $concat $concatArrays $cond $convert $cos $cosh $count $covariancePop $covarianceSamp $dateAdd $dateDiff
    $dateFromParts $dateFromString $dateSubtract $dateToParts $dateToString $dateTrunc $dayOfMonth $dayOfWeek $dayOfYear $degreesToRadians
    $denseRank $derivative $divide $documentNumber $elemMatch $eq $exists $exp $expMovingAvg $expr $filter $first $firstN $floor $geoIntersects
    $geoWithin $geometry $getField $gt $gte $hour $ifNull $in $indexOfArray $indexOfBytes $indexOfCP $integral $isArray $isNumber $isoDayOfWeek
    $isoWeek $isoWeekYear $last $lastN $let $linearFill $literal $ln $locf $log $log10 $lt $lte $ltrim $map $max $maxDistance $maxN $median
    $mergeObjects $meta $millisecond $min $minDistance $minN $minute $mod $month $multiply $ne $near $nearSphere $nin $nor $not $objectToArray
    $options $or $percentile $polygon $pow $push $radiansToDegrees $rand $range $rank $reduce $regex $regexFind $regexFindAll $regexMatch
    $replaceAll $replaceOne $reverseArray $round $rtrim $sampleRate $second $setDifference $setEquals $setField $setIntersection $setIsSubset
    $setUnion $shift $sin $sinh $size $slice $sortArray $split $sqrt $stdDevPop $stdDevSamp $strLenBytes $strLenCP $strcasecmp $substr
    $substrBytes $substrCP $subtract $sum $switch $tan $tanh $text $search $language $caseSensitive $diacriticSensitive $toBool $toDate
    $toDecimal $toDouble $toHashedIndexKey $toInt $toLong $toLower $toObjectId $toString $toUpper $top $topN $trim $trunc $tsIncrement
    $tsSecond $type $unsetField $week $year $zip $natural $maxDistance $minDistance $box $unit";

fn listed(names: &'static str) -> HashSet<&'static str> {
    names.split_whitespace().collect()
}

/// Validates it. The error says what is not allowed, for the author.
pub fn check(asked: &Asked) -> Result<(), String> {
    if !matches!(asked.verb, "find" | "aggregate" | "count" | "distinct") {
        return Err(format!("{} writes; this source is read-only", asked.verb));
    }
    check_collection(&asked.collection)?;
    for (name, value) in &asked.command {
        match (name.as_str(), value) {
            ("pipeline", Bson::Array(stages)) => pipeline(stages)?,
            _ => operators(value)?,
        }
    }
    Ok(())
}

/// Checks that a collection is not a system collection.
fn check_collection(name: &str) -> Result<(), String> {
    if name.starts_with("system.") || name.contains('$') || name.is_empty() {
        Err(format!("access to the collection {name:?} is not allowed"))
    } else {
        Ok(())
    }
}

fn pipeline(stages: &[Bson]) -> Result<(), String> {
    static NAMES: LazyLock<HashSet<&'static str>> = LazyLock::new(|| listed(STAGES));
    for stage in stages {
        let Bson::Document(stage) = stage else {
            return Err("a pipeline stage must be an object".to_owned());
        };
        let mut fields = stage.iter();
        let (Some((name, value)), None) = (fields.next(), fields.next()) else {
            return Err("a pipeline stage must have exactly one field, such as $match".to_owned());
        };
        if !NAMES.contains(name.as_str()) {
            return Err(format!(
                "the pipeline stage {name} is not allowed on a read-only source"
            ));
        }
        match (name.as_str(), value) {
            ("$facet", Bson::Document(facets)) => {
                for (_, facet) in facets {
                    nested(facet)?;
                }
            }
            ("$lookup" | "$unionWith" | "$graphLookup", Bson::Document(fields)) => joined(fields)?,
            ("$unionWith", Bson::String(collection)) => check_collection(collection)?,
            ("$facet" | "$lookup" | "$unionWith" | "$graphLookup", _) => {
                return Err(format!("{name} has an invalid argument"));
            }
            _ => operators(value)?,
        }
    }
    Ok(())
}

fn nested(value: &Bson) -> Result<(), String> {
    match value {
        Bson::Array(stages) => pipeline(stages),
        _ => Err("a pipeline must be a list of stages".to_owned()),
    }
}

/// Checks a stage that reads another collection: of the same database, by its name.
fn joined(fields: &Document) -> Result<(), String> {
    for (name, value) in fields {
        match (name.as_str(), value) {
            ("from" | "coll", Bson::String(collection)) => check_collection(collection)?,
            ("from" | "coll", _) => return Err("collections of other databases are not allowed".to_owned()),
            ("pipeline", value) => nested(value)?,
            (_, value) => operators(value)?,
        }
    }
    Ok(())
}

/// Checks every key below.
fn operators(value: &Bson) -> Result<(), String> {
    static NAMES: LazyLock<HashSet<&'static str>> = LazyLock::new(|| listed(OPERATORS));
    match value {
        Bson::Document(fields) => fields.iter().try_for_each(|(name, value)| {
            if name.starts_with('$') && !NAMES.contains(name.as_str()) {
                Err(format!("{name} is not allowed on a read-only source"))
            } else {
                operators(value)
            }
        }),
        Bson::Array(items) => items.iter().try_for_each(operators),
        Bson::JavaScriptCode(_) | Bson::JavaScriptCodeWithScope(_) => Err("JavaScript is not allowed".to_owned()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::mql;
    use super::*;

    #[test]
    fn reads_pass() {
        for text in [
            "db.orders.find({total: {$gt: 5, $not: {$in: [1]}}, name: /^a/i}).sort({at: -1})",
            "db.orders.countDocuments({$expr: {$eq: ['$a', '$b']}})",
            "db.orders.distinct('status', {a: {$exists: true}})",
            "db.orders.aggregate([{$match: {a: 1}}, {$group: {_id: '$a', n: {$sum: 1}}}, {$sort: {n: -1}}, {$limit: 5}])",
            "db.orders.aggregate([{$lookup: {from: 'items', let: {i: '$_id'}, pipeline: [{$match: {$expr: {$eq: ['$o', '$$i']}}}], as: 'x'}}, {$unwind: '$x'}])",
            "db.orders.aggregate([{$facet: {a: [{$count: 'n'}], b: [{$sample: {size: 5}}]}}, {$unionWith: 'old'}])",
            "db.orders.aggregate([{$setWindowFields: {partitionBy: '$a', sortBy: {b: 1}, output: {c: {$sum: '$d', window: {documents: ['unbounded', 'current']}}}}}])",
        ] {
            assert_eq!(check(&mql::parse(text).unwrap()), Ok(()), "{text}");
        }
    }
}
