"""The mixed loads that the project measures itself by."""

from __future__ import annotations

from celery_fair.sim.scenario import Arrivals, Scenario, Work, constant, uniform

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            "steady",
            interactive=Work(constant(0.05), (Arrivals(4),)),
            batch=Work(uniform(1.5, 2.5), backlog=400),
        ),
        Scenario(
            "article",
            interactive=Work(uniform(0.2, 0.5), (Arrivals(0, size=20),)),
            batch=Work(uniform(0.8, 1.5), (Arrivals(0, size=60),)),
            slots=4,
            warmup=0,
            duration=60,
        ),
        Scenario(
            "flood",
            interactive=Work(uniform(0.15, 0.25), (Arrivals(60),)),
            batch=Work(uniform(1.5, 2.5), backlog=100),
            warmup=2,
            duration=10,
            grace=15,
        ),
        Scenario(
            "monoliths",
            interactive=Work(constant(0.05), (Arrivals(4),)),
            batch=Work(uniform(8, 12), backlog=60),
            warmup=10,
            duration=30,
            grace=10,
        ),
        Scenario(
            "bursts",
            interactive=Work(constant(0.05), (Arrivals(0.2, size=30, poisson=False),)),
            batch=Work(uniform(1.5, 2.5), backlog=400),
            warmup=5,
        ),
        Scenario(
            "llm",
            interactive=Work(uniform(1, 5), (Arrivals(0.8),)),
            batch=Work(uniform(5, 15), backlog=60),
            warmup=30,
            duration=120,
            grace=15,
        ),
    )
}
