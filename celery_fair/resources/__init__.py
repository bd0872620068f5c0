"""What all workers share beside their slots: a model's places, its requests and tokens a minute.

A task says what it uses (``@fair_task(uses="openai")``), and the settings say how much there is of
it. A worker asks for what its next tasks need before it gives them a slot (`ResourceStore`).
"""
