"""Which discretization does an online filter need? The belt drive of Beckmann, Dagen and Ortmaier, six schemes at 1 kHz.

An augmented Kalman filter estimates spring and damping of a belt from motor angle and speed. The paper's Table 3 has, in %, the
errors E1 (spring) and E2 (damping). It gives neither set points nor controller gains nor the noise; so rankings can be
compared, numbers only in kind. Each of its tables and figures, and how often its claims hold, is computed by

    dynident papers run filter/fig-5        (`dynident papers` lists all)

Here: the belt as printed and one 8 times stiffer, where forward Euler is unstable as the paper says.
"""

import dynident as di
from dynident.integrators.operation_count import operation_counts
from dynident.models.library import belt_drive
from dynident.papers.belt_drive_study import BELT_SAMPLING, SCHEMES, STIFF, TABLE_3, belt_drive_run, own_tunings, run_filters


def table(stiffer: float) -> dict[str, tuple[float, float, float]]:
    """E1 and E2 in %, and the mean squared innovation (2 is right), by scheme."""
    its = belt_drive_run(stiffer)
    tuning = own_tunings(its)[-1]
    print(f"\n{its.name}, {tuning.name}:\n{'':6}{'multiplications':>16}{'E1':>9}{'E2':>9}{'NIS':>9}{'paper: E1':>12}{'E2':>9}")
    found = {}
    for label, run in run_filters(its, tuning).items():
        cost = operation_counts(belt_drive(), SCHEMES[label], ["c_spec", "d"], jacobian=True, step=BELT_SAMPLING)
        found[label] = (run.spring, run.damping, run.nis)
        print(f"{label:6}{cost.multiplications:16}{run.spring:9.2f}{run.damping:9.2f}{run.nis:9.3g}{TABLE_3[label][3]:12.2f}"
              f"{TABLE_3[label][4]:9.2f}")
    return found


def main() -> dict[float, dict[str, tuple[float, float, float]]]:
    tables = {stiffer: table(stiffer) for stiffer in (1.0, STIFF)}
    for stiffer, found in tables.items():
        better = all(found["SE"][k] < found["Heun"][k] for k in (0, 1))
        print(f"{stiffer:g} times the stiffness of Table 1: Euler misses the damping by {found['EF'][1]:.0f} %; symplectic "
              f"Euler is {'better' if better else 'not better'} than Heun in both, and its squared innovations are "
              f"{found['SE'][2]:.0f} where 2 is right.")
    return tables


if __name__ == "__main__":
    print(f"dynident {di.__version__}")
    main()
