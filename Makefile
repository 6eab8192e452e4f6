# `make demo` and `make test` do all set-up on a fresh machine.

.PHONY: demo test test-full stubs run-record format clean

demo: ## Build, take the real small model, and say whether it runs on one core
	scripts/setup.sh
	scripts/demo.sh

test: ## Build and run every test that is quick enough for each change
	scripts/setup.sh --tests
	scripts/test.sh

test-full: ## `make test`, then the long suites; goes on where it was stopped
	scripts/setup.sh --tests
	scripts/test.sh
	.venv/bin/python scripts/test_full.py

stubs: ## Write the .pyi files of the extensions anew
	.venv/bin/python scripts/stubs.py

run-record: ## Write what is made from run_record_schema.toml anew
	.venv/bin/python scripts/run_record.py

format: ## Format C++ and Python
	git ls-files '*.h' '*.cc' | xargs clang-format -i
	.venv/bin/ruff format -q .
	.venv/bin/ruff check -q --fix .

clean: ## Remove what was built; .venv and .models stay
	rm -rf build
