//! Prints the comparison as plain text.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let only = std::env::args().nth(1);
    let list: Vec<_> = exitscope_validation::experiments()?
        .into_iter()
        .filter(|experiment| only.as_ref().is_none_or(|only| *only == experiment.name))
        .collect();
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
