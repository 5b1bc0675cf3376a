//! Prints the comparison as plain text.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let only = std::env::args().nth(1);
    let mut list: Vec<_> = exitscope_validation::experiments()?
        .into_iter()
        .filter(|experiment| only.as_ref().is_none_or(|only| *only == experiment.name))
        .collect();
    for set in std::env::args().skip(2) {
        let (key, value) = set.split_once('=').ok_or("key=value")?;
        for experiment in &mut list {
            experiment.run.values_mut().for_each(|run| {
                run.insert(key.to_string(), value.to_string());
            });
        }
    }
    let validation = exitscope_validation::validate(&list, 3)?;
    for experiment in &validation.experiments {
        println!("{}", experiment.name);
        for row in &experiment.rows {
            println!(
                "  {:12} {:60} {:>12.4} | {:>12.4} | {:.3} {:?} {:?}",
                row.id, row.what, row.published, row.simulated, row.ratio, row.role, row.verdict
            );
        }
    }
    println!("{} of {} near, {} wrong", validation.near, validation.predicted_changes, validation.wrong);
    Ok(())
}
