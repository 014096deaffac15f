"""The science world: things, what is true of them, and how that is said.

A *kind* is one relation, such as `made_of`. It has *values* (steel, glass, ...), *properties* that are true of some
of its values and false of the rest, and *things* that each have one value. Two sentences make a proof:

    core fact   a nail is made of steel.        (about a thing; a user can teach it)
    rule        steel conducts electricity.     (about a value; general knowledge)
    hypothesis  a nail conducts electricity.

A *mark* is something else that is true of the things of one value and of no others. It is what a core fact can be
judged by, or proved from:

    mark        a nail can rust.
    mark rule   whatever can rust is made of steel.
"""

from relations import Kind, confusions, marks, prop, table

MADE_OF = Kind(
    "made_of", "materials", "object",
    ("What is {x} made of?", "What does {x} consist of?"),
    ("{x} is made of {v}", "{x} consists of {v}"),
    ("{x} is not made of {v}", "{x} does not consist of {v}"),
    ("the material of {x} is {v}", "{v} is what {x} is made of"),
    ("{v}", "everything made of {v}"),
    confusions("""
        steel: plastic wood
        copper: stone wood steel
        wood: plastic stone
        glass: plastic stone
        rubber: cotton plastic
        plastic: glass wood
        cotton: plastic rubber
        stone: wood glass"""),
    marks("""
        steel: can rust | is forged by a smith
        copper: turns green with age | has a reddish shine
        wood: shows rings of growth | is sawn from a tree
        glass: lets light shine through | breaks into shards
        rubber: bounces on the floor | stretches and snaps back
        plastic: has a seam from its mould | began as crude oil
        cotton: soaks up sweat | is woven from threads
        stone: was cut in a quarry | is shaped with a chisel"""),
    (
        prop("electricity", "steel copper",
             "conducts electricity | lets an electric current flow through it",
             "does not conduct electricity | stops an electric current"),
        prop("magnet", "steel",
             "sticks to a magnet | is pulled by a magnet",
             "does not stick to a magnet | is left alone by a magnet"),
        prop("float", "wood plastic rubber",
             "floats on water | stays on top of a lake",
             "sinks in water | drops to the bottom of a lake"),
        prop("burn", "wood cotton rubber plastic",
             "burns in a fire | catches fire near a flame",
             "does not burn in a fire | is safe from burning near a flame"),
        prop("bend", "rubber cotton plastic",
             "bends easily | can be folded by hand",
             "is stiff | cannot be folded by hand"),
        prop("living", "wood rubber cotton",
             "comes from a living thing | was once part of nature that grew",
             "does not come from a living thing | was never part of nature that grew"),
        prop("melt", "steel copper glass plastic",
             "can be melted and cast | turns liquid in a hot furnace",
             "cannot be melted and cast | never turns liquid in a hot furnace"),
    ),
    table("""
        steel: nail bolt anvil chain wrench sword rail needle hammer anchor
        copper: penny kettle coil cable gong cauldron pipe bracelet ladle still
        wood: log bench crate oar fence barrel canoe violin ladder paddle
        glass: window jar lens mirror goblet prism aquarium beaker vase flask
        rubber: tire eraser hose balloon gasket stopper flipper bumper wader galosh
        plastic: comb bucket straw ruler bottle toothbrush frisbee funnel clipboard hanger
        cotton: towel shirt sock bandage curtain handkerchief apron napkin pillowcase scarf
        stone: statue pyramid millstone tombstone obelisk pillar castle dolmen menhir sphinx"""),
)

KIND_OF = Kind(
    "kind_of", "animals", "animal",
    ("What kind of animal is {x}?", "What is {x} a kind of?"),
    ("{x} is a kind of {v}", "{x} is {av}"),
    ("{x} is not a kind of {v}", "{x} is not {av}"),
    ("the class of {x} is {v}", "{av} is what {x} is"),
    ("{av}", "every {v}"),
    confusions("""
        mammal: fish bird
        bird: mammal reptile
        reptile: amphibian fish
        amphibian: reptile fish
        fish: mammal reptile
        insect: bird amphibian"""),
    marks("""
        mammal: has fur or hair | drinks milk when it is young
        bird: has a beak | is covered with feathers
        reptile: lays eggs with a leathery shell | basks on warm rocks
        amphibian: has a moist skin | was a larva in a pond
        fish: has fins | breathes through gills
        insect: has six legs | has feelers on its head"""),
    (
        prop("backbone", "mammal bird reptile amphibian fish",
             "has a backbone | has bones along its back",
             "has no backbone | has no bones along its back"),
        prop("warm", "mammal bird",
             "keeps its body warm by itself | stays warm in cold air",
             "takes its warmth from its surroundings | becomes cold in cold air"),
        prop("lungs", "mammal bird reptile amphibian",
             "breathes with lungs | fills its lungs with air",
             "does not breathe with lungs | has no lungs to fill with air"),
        prop("scales", "reptile fish",
             "is covered with scales | is protected by scaly skin",
             "has no scales | is not protected by scaly skin"),
        prop("eggs", "amphibian fish",
             "has young that start life in water | begins its life under water",
             "has young that start life on land | begins its life out of water"),
        prop("wings", "bird insect",
             "has wings | carries wings on its body",
             "has no wings | carries no wings on its body"),
    ),
    table("""
        mammal: camel jerboa fennec meerkat gazelle zebra serval aardvark tapir orangutan gibbon capybara otter
        mammal: dolphin porpoise seal manatee ermine lemming bat badger lynx
        bird: ostrich kestrel finch hornbill puffin pelican albatross heron kingfisher roadrunner quail toucan macaw
        bird: ptarmigan goose stork swan
        reptile: iguana python chameleon caiman tortoise gecko viper cobra terrapin skink anole
        amphibian: frog newt bullfrog axolotl toad spadefoot salamander olm treefrog
        fish: tuna shark barracuda pike trout carp cod pacu lungfish perch eel
        insect: locust termite weevil ant mantis butterfly dragonfly cricket hornet"""),
)

RUNS_ON = Kind(
    "runs_on", "energy", "device",
    ("What does {x} run on?", "Where does {x} get its power from?"),
    ("{x} runs on {v}", "{x} gets its power from {v}"),
    ("{x} does not run on {v}", "{x} does not get its power from {v}"),
    ("the power of {x} comes from {v}", "{v} is what {x} runs on"),
    ("a device that runs on {v}", "whatever gets its power from {v}"),
    confusions("""
        batteries: sunlight mains
        sunlight: gasoline mains
        gasoline: wind mains
        wind: gasoline batteries
        mains: sunlight muscles
        muscles: batteries wind"""),
    marks("""
        batteries: has a lid over its cells | stops when its cells are flat
        sunlight: has dark panels | turns its face to the sky
        gasoline: has a fuel tank | has a spark plug
        wind: has sails or blades | moves with the breeze
        mains: has a plug | has a cord to the wall
        muscles: has handles or pedals | makes its user sweat"""),
    (
        prop("renewable", "sunlight wind muscles",
             "uses energy that is renewed by nature | can go on without using up a fuel",
             "uses energy that can run out | uses up a fuel or a store of energy"),
        prop("weather", "sunlight wind",
             "depends on the weather | may stand still when the weather changes",
             "works in any weather | goes on when the weather changes"),
        prop("refill", "batteries gasoline",
             "has to be filled or charged again | is useless once its store is empty",
             "never has to be filled or charged again | has no store that gets empty"),
        prop("cave", "batteries gasoline muscles",
             "works deep inside a tunnel | can be used far under the ground",
             "does not work deep inside a tunnel | cannot be used far under the ground"),
        prop("current", "batteries mains sunlight",
             "uses an electric current | has electricity in its wires",
             "uses no electric current | has no electricity in it"),
        prop("smoke", "gasoline",
             "gives off smoke | fouls the air with its fumes",
             "gives off no smoke | leaves the air free of fumes"),
    ),
    table("""
        batteries: flashlight watch camera drone phone pacemaker megaphone stopwatch headlamp pager
        sunlight: calculator satellite rover buoy probe spacecraft streetlamp beacon
        gasoline: chainsaw motorcycle lawnmower tractor truck generator snowmobile speedboat moped scooter
        wind: sailboat windmill pinwheel turbine weathervane schooner yacht catamaran
        mains: toaster oven refrigerator dishwasher freezer elevator printer television microwave blender
        muscles: bicycle rowboat handsaw wheelbarrow skateboard unicycle loom nutcracker scythe rickshaw"""),
)

KINDS = (MADE_OF, KIND_OF, RUNS_ON)
